// Softmax and the losses. Exponents are taken after the largest logit is subtracted; sums are f64.
// Formulas of the cross-entropy's weights: core/reference/losses.cpp.
#include "core/backend/losses.h"

#include "core/backend/host_label.h"
#include "core/cpu/cpu_kernels.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"
#include "core/cpu/support/thread_sums.h"
#include "core/cpu/support/vector_math.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cmath>

namespace whisker::cpu {
namespace {

void softmax_backward_row(const float* y, const float* dy, bool log, float* dx, int64_t classes) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    sum += static_cast<double>(dy[c]) * (log ? 1.0 : static_cast<double>(y[c]));
  }
  const auto total = static_cast<float>(sum);
  for (int64_t c = 0; c < classes; ++c) {
    dx[c] = log ? dy[c] - vector_exp(y[c]) * total : y[c] * (dy[c] - total);
  }
}

/// Calls fn(in1, in2, out) with contiguous rows of `classes` elements, gathered from the middle
/// axis and scattered back when `inner` > 1.
template <class Fn>
void for_each_softmax_row(Allocator& allocator, const SoftmaxGeometry& g, const float* a,
                          const float* b, float* y, Fn&& fn) {
  const int64_t rows = g.outer * g.inner;
  const int team = team_size(rows, rows_grain(g.classes * 8));
  const Scratch<float> memory(allocator, g.inner > 1 ? team * 3 * g.classes : 0);
  parallel_each(rows, rows_grain(g.classes * 8), [&](int64_t row, int thread) {
    if (g.inner == 1) {
      return fn(a + row * g.classes, b ? b + row * g.classes : nullptr, y + row * g.classes);
    }
    const int64_t first = row / g.inner * g.classes * g.inner + row % g.inner;
    float* own = memory.data() + thread * 3 * g.classes;
    for (int64_t c = 0; c < g.classes; ++c) {
      own[c] = a[first + c * g.inner];
      if (b) own[g.classes + c] = b[first + c * g.inner];
    }
    fn(own, own + g.classes, own + 2 * g.classes);
    for (int64_t c = 0; c < g.classes; ++c) y[first + c * g.inner] = own[2 * g.classes + c];
  });
}

struct CrossEntropyRow {
  const CrossEntropyGeometry& g;
  const float* class_weight;
  double divisor;

  double weight(int64_t c) const {
    return class_weight ? static_cast<double>(class_weight[c]) : 1.0;
  }
  /// The row's loss, undivided. soft: probabilities (classes) or null; gradient may be null.
  double operator()(const float* logits, int64_t label, const float* soft, float* gradient) const {
    const float largest = largest_of(logits, g.classes);
    const double sum = exponentials(logits, largest, gradient, g.classes);
    const double log_sum = std::log(sum);
    // -log softmax; largest + log_sum would be rounded to the largest where logits are huge.
    const auto surprise = [&](int64_t c) {
      return (static_cast<double>(largest) - static_cast<double>(logits[c])) + log_sum;
    };
    const double smooth = g.label_smoothing / static_cast<double>(g.classes);
    const auto target = [&](int64_t c) {
      const double wanted = soft ? static_cast<double>(soft[c]) : static_cast<double>(c == label);
      return weight(c) * ((1 - g.label_smoothing) * wanted + smooth);
    };
    double loss = 0;
    double target_sum = 0;
    if (!soft && g.label_smoothing == 0) {
      target_sum = weight(label);
      loss = target_sum == 0 ? 0 : target_sum * surprise(label);
    } else {
      for (int64_t c = 0; c < g.classes; ++c) {
        const double t = target(c);
        target_sum += t;
        // A class without weight adds nothing, even where its log probability is -infinity.
        if (t != 0) loss += t * surprise(c);
      }
    }
    if (!gradient) return loss;
    scale_row(gradient, static_cast<float>(target_sum / sum / divisor), g.classes);
    if (!soft && g.label_smoothing == 0) {
      gradient[label] -= static_cast<float>(target_sum / divisor);
    } else {
      for (int64_t c = 0; c < g.classes; ++c) {
        gradient[c] -= static_cast<float>(target(c) / divisor);
      }
    }
    return loss;
  }
};

// The loss is max(x, 0) - x t + log(1 + exp(-|x|)), its derivative sigmoid(x) - t.
WHISKER_VECTORIZE double binary_range(const float* x, const float* t, float scale, float* dx,
                                      int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const float positive = x[i] < 0 ? 0 : x[i];
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    sum += static_cast<double>(positive - x[i] * t[i] + vector_log1p_exp_minus(magnitude));
  }
  if (dx) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dx[i] = (vector_sigmoid(x[i]) - t[i]) * scale;
  }
  return sum;
}

class Losses final : public LossKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    ViaF32 t(device_.backend, "softmax", y);
    for_each_softmax_row(
        allocator_, g, f32(t.in(x)), nullptr, f32(t.out(y)),
        [&](const float* in, const float*, float* out) { softmax_row(in, g.log, out, g.classes); });
  }

  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override {
    ViaF32 t(device_.backend, "softmax", dx);
    for_each_softmax_row(allocator_, g, f32(t.in(y)), f32(t.in(dy)), f32(t.out(dx)),
                         [&](const float* out, const float* gradient, float* result) {
                           softmax_backward_row(out, gradient, g.log, result, g.classes);
                         });
  }

  void cross_entropy(const CrossEntropyGeometry& g, const LossInputs& in,
                     const LossOutputs& out) override {
    ViaF32 t(device_.backend, "cross_entropy", in.logits);
    const float* x = f32(t.in(in.logits));  // (rows, classes)
    const float* soft = g.soft ? f32(t.in(in.target)) : nullptr;
    const int64_t* labels = g.soft ? nullptr : static_cast<const int64_t*>(in.target.raw());
    float* gradient = f32_or_null(t.out(out.dlogits));
    CrossEntropyRow row{.g = g,
                        .class_weight = g.weighted ? f32(t.in(in.class_weight)) : nullptr,
                        .divisor = static_cast<double>(g.rows)};
    if (labels) {
      row.divisor = 0;
      for (int64_t r = 0; r < g.rows; ++r) {
        check_label("cross_entropy", labels[r], g.classes, r);
        row.divisor += row.weight(labels[r]);
      }
    }
    const int64_t grain = rows_grain(g.classes * 8);
    const ThreadSums totals(allocator_, g.rows, grain);
    parallel_each(g.rows, grain, [&](int64_t r, int thread) {
      const int64_t at = r * g.classes;
      *totals.of(thread) += row(x + at, labels ? labels[r] : 0, soft ? soft + at : nullptr,
                                gradient ? gradient + at : nullptr);
    });
    f32(t.out(out.loss))[0] = static_cast<float>(totals.total() / row.divisor);
  }

  void binary_cross_entropy(const LossInputs& in, const LossOutputs& out) override {
    ViaF32 via(device_.backend, "binary_cross_entropy_with_logits", in.logits);
    const float* x = f32(via.in(in.logits));
    const float* t = f32(via.in(in.target));
    float* dx = f32_or_null(via.out(out.dlogits));
    const int64_t count = in.logits.count();
    const auto scale = static_cast<float>(1.0 / static_cast<double>(count));
    const ThreadSums totals(allocator_, count, pointwise_grain / 8);
    parallel_ranges(count, pointwise_grain / 8, [&](int64_t begin, int64_t end, int thread) {
      *totals.of(thread) +=
          binary_range(x + begin, t + begin, scale, dx ? dx + begin : nullptr, end - begin);
    });
    f32(via.out(out.loss))[0] = static_cast<float>(totals.total() / static_cast<double>(count));
  }
};

}  // namespace

std::shared_ptr<LossKernels> make_losses(CpuDevice& device) {
  return std::make_shared<Losses>(device);
}

}  // namespace whisker::cpu
