#include "train/metrics/validation_examples.h"

#include "core/error.h"
#include "data/sequences/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace whisker {
namespace {

constexpr int64_t most_ranks = 5;
constexpr int64_t most_forecast_numbers = 1'000'000;

// Calls `visit` on each array that has `width` elements of four bytes an example.
template <class Examples, class Visit>
void each_array(Examples& examples, bool scores, Visit visit) {
  const auto ranks = static_cast<size_t>(examples.ranks);
  const size_t outputs = static_cast<size_t>(examples.horizon) * examples.targets.size();
  if (examples.is_forecast()) {
    visit(examples.predictions, outputs);
    visit(examples.truths, outputs);
  } else {
    visit(examples.labels, size_t{1});
    visit(examples.ranked, ranks);
    visit(examples.probabilities, ranks);
    visit(examples.losses, size_t{1});
    if (scores) visit(examples.scores, examples.classes.size());
  }
}

template <class T>
void append_bytes(std::string& bytes, const T* values, size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

template <class T>
const char* take_bytes(const char* from, std::vector<T>& values, size_t count) {
  const size_t before = values.size();
  values.resize(before + count);
  std::memcpy(values.data() + before, from, count * sizeof(T));
  return from + count * sizeof(T);
}

// Appends the examples that another rank has packed.
void unpack_examples(const std::string& bytes, size_t count, bool scores,
                     std::vector<int64_t>& indices, ValidationExamples& all) {
  const char* from = take_bytes(bytes.data(), indices, count);
  each_array(all, scores,
             [&](auto& values, size_t width) { from = take_bytes(from, values, count * width); });
}

void sort_examples(std::span<const int64_t> indices, bool scores, ValidationExamples& examples) {
  std::vector<size_t> order(indices.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return indices[i]; });
  each_array(examples, scores, [&]<class T>(std::vector<T>& values, size_t width) {
    std::vector<T> sorted;
    sorted.reserve(values.size());
    for (const size_t i : order) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(i * width);
      sorted.insert(sorted.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
    values = std::move(sorted);
  });
}

// Forecasts of a series whose logarithms are learned may be of any size.
float limited_float(double value) {
  constexpr double most = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -most, most));
}

}  // namespace

int64_t ValidationExamples::size() const {
  if (!is_forecast()) return std::ssize(labels);
  return std::ssize(truths) / (horizon * std::ssize(targets));
}

bool ValidationExamples::has_one_class() const {
  return std::ranges::adjacent_find(labels, std::not_equal_to<>()) == labels.end();
}

float ValidationExamples::probability(int64_t example, int32_t of_class) const {
  if (!scores.empty()) {
    return scores[static_cast<size_t>(example * std::ssize(classes) + of_class)];
  }
  const auto first = ranked.begin() + example * ranks;
  const auto found = std::find(first, first + ranks, of_class);
  return found == first + ranks ? 0 : probabilities[static_cast<size_t>(found - ranked.begin())];
}

double example_loss(float probability) {
  const float limited = std::max(probability, std::numeric_limits<float>::min());
  return std::abs(std::log(static_cast<double>(limited)));
}

ExampleCollector::ExampleCollector(const Signature& signature, int64_t examples, int64_t scores)
    : scores_(examples * std::ssize(signature.classes) <= scores) {
  own_.of = signature.examples();
  own_.classes = signature.classes;
  own_.ranks = std::min(most_ranks, std::ssize(signature.classes));
  if (const auto* series = std::get_if<SeriesInput>(&signature.input)) {
    own_.targets = series->targets;
    own_.horizon = series->horizon;
    const int64_t numbers = examples * series->outputs();
    own_.every =
        std::max<int64_t>(1, (numbers + most_forecast_numbers - 1) / most_forecast_numbers);
  }
}

void ExampleCollector::add(const Tensor& outputs, const Batch& batch) {
  const auto values = outputs.data<const float>();
  const auto width = static_cast<size_t>(outputs.extent(1));
  for (size_t i = 0; i < batch.indices.size(); ++i) {
    const auto row = values.subspan(i * width, width);
    if (own_.is_forecast()) {
      add_forecast(row, *batch.bases, batch.indices[i]);
    } else {
      add_classification(row, batch.labels.data<const int64_t>()[i], batch.indices[i]);
    }
  }
}

// Among equal probabilities the first class leads, as in ClassificationMetrics.
void ExampleCollector::add_classification(std::span<const float> probabilities, int64_t label,
                                          int64_t index) {
  indices_.push_back(index);
  own_.labels.push_back(static_cast<int32_t>(label));
  own_.losses.push_back(
      static_cast<float>(example_loss(probabilities[static_cast<size_t>(label)])));
  if (scores_) own_.scores.insert(own_.scores.end(), probabilities.begin(), probabilities.end());
  std::array<int32_t, most_ranks> best{};
  size_t count = 0;
  for (size_t c = 0; c < probabilities.size(); ++c) {
    const float own = probabilities[c];
    size_t at = count;
    while (at > 0 && own > probabilities[static_cast<size_t>(best[at - 1])]) --at;
    if (at == static_cast<size_t>(own_.ranks)) continue;
    count = std::min(count + 1, static_cast<size_t>(own_.ranks));
    std::shift_right(best.begin() + static_cast<std::ptrdiff_t>(at),
                     best.begin() + static_cast<std::ptrdiff_t>(count), 1);
    best[at] = static_cast<int32_t>(c);
  }
  for (size_t i = 0; i < count; ++i) {
    own_.ranked.push_back(best[i]);
    own_.probabilities.push_back(probabilities[static_cast<size_t>(best[i])]);
  }
}

void ExampleCollector::add_forecast(std::span<const float> outputs, const ForecastBases& bases,
                                    int64_t window) {
  if (window % own_.every != 0) return;
  indices_.push_back(window);
  for (int64_t j = 0; j < std::ssize(outputs); ++j) {
    const auto at = static_cast<size_t>(window * std::ssize(outputs) + j);
    const double scaled = outputs[static_cast<size_t>(j)];
    own_.predictions.push_back(limited_float(bases.restore(window, j, scaled)));
    own_.truths.push_back(limited_float(bases.actual[at]));
  }
}

// They come a block at a time, as one message cannot hold any number of them.
ValidationExamples ExampleCollector::of_all_ranks(RankGroup& ranks) {
  constexpr size_t block = 1024;
  ValidationExamples own = std::move(own_), all;
  all.of = own.of;
  all.classes = own.classes;
  all.ranks = own.ranks;
  all.targets = own.targets;
  all.horizon = own.horizon;
  all.every = own.every;
  own_ = all;
  std::vector<int64_t> indices = std::exchange(indices_, {}), all_indices;
  if (ranks.world() == 1) {
    all = std::move(own);
    all_indices = std::move(indices);
  } else {
    std::vector<size_t> counts = ranks.gather(indices.size());
    const size_t most = std::ranges::max(counts);
    for (size_t begin = 0; begin < most; begin += block) {
      const auto in_block = [&](size_t count) {
        return std::min(block, count - std::min(begin, count));
      };
      std::string bytes;
      const size_t mine = in_block(indices.size());
      append_bytes(bytes, indices.data() + begin * (mine > 0), mine);
      each_array(own, scores_, [&](const auto& values, size_t width) {
        append_bytes(bytes, values.data() + begin * width * (mine > 0), mine * width);
      });
      const std::vector<std::string> parts = ranks.all_gather(bytes);
      if (!ranks.leads()) continue;
      for (size_t rank = 0; rank < parts.size(); ++rank) {
        unpack_examples(parts[rank], in_block(counts[rank]), scores_, all_indices, all);
      }
    }
  }
  if (!std::ranges::is_sorted(all_indices)) sort_examples(all_indices, scores_, all);
  return all;
}

}  // namespace whisker
