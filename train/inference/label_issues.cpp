#include "train/inference/label_issues.h"

#include "core/autograd/autograd.h"
#include "core/error.h"
#include "core/ops/ops.h"
#include "core/tensor/philox.h"
#include "core/tensor/tensor.h"
#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace whisker {
namespace {

using Rows = std::vector<int64_t>;

float* values_of(Tensor& tensor) {
  return tensor.data<float>().data();
}

// The rows of each fold: every class is divided evenly.
std::vector<Rows> stratified_folds(std::span<const int64_t> labels, int64_t classes,
                                   uint64_t seed) {
  std::vector<Rows> of_class(static_cast<size_t>(classes));
  for (size_t i = 0; i < labels.size(); ++i) {
    of_class[static_cast<size_t>(labels[i])].push_back(static_cast<int64_t>(i));
  }
  std::vector<Rows> folds(label_folds);
  size_t next = 0;
  for (size_t c = 0; c < of_class.size(); ++c) {
    shuffle(of_class[c], seed, stream_of("label folds"), c);
    for (const int64_t row : of_class[c]) folds[next++ % folds.size()].push_back(row);
  }
  for (Rows& fold : folds) std::ranges::sort(fold);
  return folds;
}

// (n, d + 1): columns of mean 0 and deviation 1, divided by sqrt(d), and a 1 for the bias. So the
// mean square norm of a row is 2 at most, which bounds the loss's curvature by 1.
Tensor standardised(std::span<const float> features, size_t n, size_t d) {
  Tensor x = empty({static_cast<int64_t>(n), static_cast<int64_t>(d) + 1});
  float* const to = values_of(x);
  for (size_t j = 0; j < d; ++j) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<double>(features[i * d + j]);
    const double mean = sum / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      squares += std::pow(static_cast<double>(features[i * d + j]) - mean, 2);
    }
    const double deviation = std::sqrt(squares / static_cast<double>(n));
    const double scale = deviation > 0 ? 1 / (deviation * std::sqrt(static_cast<double>(d))) : 0;
    for (size_t i = 0; i < n; ++i) {
      to[i * (d + 1) + j] =
          static_cast<float>((static_cast<double>(features[i * d + j]) - mean) * scale);
    }
  }
  for (size_t i = 0; i < n; ++i) to[i * (d + 1) + d] = 1;
  return x;
}

Tensor rows_of(const Tensor& x, const Rows& rows) {
  Tensor some = empty(x.shape().with(0, std::ssize(rows)));
  const auto width = static_cast<size_t>(x.extent(1));
  const float* const from = x.data<const float>().data();
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(from + static_cast<size_t>(rows[i]) * width, width, values_of(some) + i * width);
  }
  return some;
}

// The weights (classes, d + 1) of least cross-entropy with a small L2 term, by Nesterov's
// accelerated gradient (Nesterov 1983); its step is the inverse of the curvature's bound.
Tensor logistic_regression(const Tensor& x, const Rows& rows, std::span<const int64_t> labels,
                           int64_t classes) {
  constexpr int steps = 150;
  constexpr float l2 = 1e-3f, rate = 1 / (1 + l2);
  const int64_t n = x.extent(0);
  Tensor weights = zeros({classes, x.extent(1)}), ahead = zeros(weights.shape());
  Tensor errors = empty({classes, n});
  const auto size = static_cast<size_t>(classes * x.extent(1));
  float momentum = 1;
  for (int step = 0; step < steps; ++step) {
    const Tensor predicted = softmax(linear(x, ahead, {}));  // (n, classes)
    const float* const p = predicted.data<const float>().data();
    float* const e = values_of(errors);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t label = labels[static_cast<size_t>(rows[static_cast<size_t>(i)])];
      for (int64_t c = 0; c < classes; ++c) {
        e[c * n + i] = (p[i * classes + c] - (c == label ? 1.0f : 0.0f)) / static_cast<float>(n);
      }
    }
    const Tensor gradient = matmul(errors, x);
    const float* const g = gradient.data<const float>().data();
    const float next = (1 + std::sqrt(1 + 4 * momentum * momentum)) / 2;
    const float onward = (momentum - 1) / next;
    momentum = next;
    float *const w = values_of(weights), *const a = values_of(ahead);
    for (size_t j = 0; j < size; ++j) {
      const float moved = a[j] - rate * (g[j] + l2 * a[j]);
      a[j] = moved + onward * (moved - w[j]);
      w[j] = moved;
    }
  }
  return weights;
}

// (n): how many of the nearest neighbours by cosine have the example's label.
std::vector<int64_t> neighbours_with_label(std::span<const float> features,
                                           std::span<const int64_t> labels, size_t d) {
  constexpr int64_t block = 256;
  const auto n = std::ssize(labels);
  Tensor unit = empty({n, static_cast<int64_t>(d)});
  for (size_t i = 0; i < labels.size(); ++i) {
    double squares = 0;
    for (size_t j = 0; j < d; ++j) squares += std::pow(static_cast<double>(features[i * d + j]), 2);
    const auto scale = static_cast<float>(squares > 0 ? 1 / std::sqrt(squares) : 0);
    for (size_t j = 0; j < d; ++j) values_of(unit)[i * d + j] = features[i * d + j] * scale;
  }
  const int64_t nearest = std::min(label_neighbours, n - 1);
  std::vector<int64_t> counts, order;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t rows = std::min(block, n - begin);
    const Tensor cosines = linear(slice(unit, 0, begin, begin + rows), unit, {});  // (rows, n)
    for (int64_t row = 0; row < rows; ++row) {
      const float* const cosine = cosines.data<const float>().data() + row * n;
      order.resize(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      order.erase(order.begin() + begin + row);
      std::ranges::nth_element(order, order.begin() + nearest - 1, [&](int64_t a, int64_t b) {
        return cosine[a] != cosine[b] ? cosine[a] > cosine[b] : a < b;
      });
      counts.push_back(std::count_if(order.begin(), order.begin() + nearest, [&](int64_t other) {
        return labels[static_cast<size_t>(other)] == labels[static_cast<size_t>(begin + row)];
      }));
    }
  }
  return counts;
}

}  // namespace

std::vector<LabelIssue> find_label_issues(std::span<const float> features,
                                          std::span<const int64_t> labels, int64_t classes,
                                          uint64_t seed) {
  const NoGrad no_grad;
  const size_t n = labels.size(), d = features.size() / std::max<size_t>(n, 1);
  if (!std::ranges::all_of(features, [](float value) { return std::isfinite(value); })) {
    fail(ErrorKind::usage,
         "label issues: expected finite features, got values that overflowed. Do the weights fit "
         "the images (--input)?");
  }
  const std::vector<int64_t> agreeing = neighbours_with_label(features, labels, d);
  const int64_t nearest = std::min(label_neighbours, std::ssize(labels) - 1);
  const Tensor x = standardised(features, n, d);
  std::vector<LabelIssue> issues;
  for (const Rows& fold : stratified_folds(labels, classes, seed)) {
    Rows others;
    for (int64_t i = 0; i < std::ssize(labels); ++i) {
      if (!std::ranges::binary_search(fold, i)) others.push_back(i);
    }
    const Tensor weights = logistic_regression(rows_of(x, others), others, labels, classes);
    const Tensor probabilities = softmax(linear(rows_of(x, fold), weights, {}));
    for (size_t row = 0; row < fold.size(); ++row) {
      const auto own = probabilities.data<const float>().subspan(row * static_cast<size_t>(classes),
                                                                 static_cast<size_t>(classes));
      const auto most = std::ranges::max_element(own);
      const auto at = static_cast<size_t>(fold[row]);
      const float of_label = own[static_cast<size_t>(labels[at])];
      if (*most < label_odds * of_label || 2 * agreeing[at] >= nearest) continue;
      issues.push_back({.example = fold[row],
                        .label = labels[at],
                        .suggested = most - own.begin(),
                        .label_probability = of_label,
                        .suggested_probability = *most,
                        .neighbours_with_label = agreeing[at]});
    }
  }
  std::ranges::sort(issues, [](const LabelIssue& a, const LabelIssue& b) {
    return a.label_probability != b.label_probability ? a.label_probability < b.label_probability
                                                      : a.example < b.example;
  });
  return issues;
}

}  // namespace whisker
