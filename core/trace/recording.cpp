// Statistics are taken in chunks of a fixed size, whose sums are added in order: the same numbers
// for any number of threads.
#include "core/trace/recording.h"

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <charconv>

namespace whisker {
namespace {

constexpr int64_t chunk_elements = 1 << 16;

struct ChunkSums {
  double sum = 0, squares = 0;
  double minimum = std::numeric_limits<double>::infinity(), maximum = -minimum;
  int64_t zeros = 0, not_finite = 0;
};

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
TensorStatistics statistics_of(std::span<const T> values) {
  const auto count = static_cast<int64_t>(values.size());
  const int64_t chunks = (count + chunk_elements - 1) / chunk_elements;
  const auto chunk = [&](int64_t i) {
    const int64_t begin = i * chunk_elements;
    return values.subspan(static_cast<size_t>(begin),
                          static_cast<size_t>(std::min(chunk_elements, count - begin)));
  };
  std::vector<ChunkSums> sums(static_cast<size_t>(chunks));
#pragma omp parallel for if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i) {
    ChunkSums local;
    for (const T value : chunk(i)) {
      const double x = as_double(value);
      if (!std::isfinite(x)) {
        ++local.not_finite;
        continue;
      }
      local.sum += x;
      local.squares += x * x;
      local.minimum = std::min(local.minimum, x);
      local.maximum = std::max(local.maximum, x);
      local.zeros += x == 0;
    }
    sums[static_cast<size_t>(i)] = local;
  }
  ChunkSums all;
  for (const ChunkSums& one : sums) {
    all.sum += one.sum;
    all.squares += one.squares;
    all.minimum = std::min(all.minimum, one.minimum);
    all.maximum = std::max(all.maximum, one.maximum);
    all.zeros += one.zeros;
    all.not_finite += one.not_finite;
  }
  TensorStatistics result{.zeros = all.zeros, .not_finite = all.not_finite};
  const auto finite = static_cast<double>(count - all.not_finite);
  if (finite == 0) return result;
  result.mean = all.sum / finite;
  result.deviation = std::sqrt(std::max(0.0, all.squares / finite - result.mean * result.mean));
  result.minimum = all.minimum;
  result.maximum = all.maximum;
  result.norm = std::sqrt(all.squares);

  using Histogram = std::array<int64_t, std::tuple_size_v<decltype(result.histogram)>>;
  constexpr auto bins = std::tuple_size_v<Histogram>;
  const double range = all.maximum - all.minimum;
  const double scale = range > 0 && std::isfinite(range) ? static_cast<double>(bins) / range : 0;
  std::vector<Histogram> counts(static_cast<size_t>(chunks));
#pragma omp parallel for if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i) {
    Histogram& local = counts[static_cast<size_t>(i)];
    for (const T value : chunk(i)) {
      const double x = as_double(value);
      if (!std::isfinite(x)) continue;
      ++local[std::min(bins - 1, static_cast<size_t>((x - all.minimum) * scale))];
    }
  }
  for (const Histogram& one : counts) {
    for (size_t bin = 0; bin < bins; ++bin) result.histogram[bin] += one[bin];
  }
  return result;
}

}  // namespace

TensorStatistics TensorStatistics::of(std::span<const double> values) {
  return statistics_of(values);
}

RecordedValues RecordedValues::of(const Tensor& x) {
  if (x.count() <= most_recorded_values) return {.all = x.to_vector()};
  std::vector<char> copy;
  const void* contents = nullptr;
  if (x.is_cuda()) {
    copy.resize(static_cast<size_t>(x.bytes()));
    backend_of(x.device()).download(x.raw(), copy.data(), x.bytes());
    contents = copy.data();
  } else {
    contents = x.raw();
  }
  RecordedValues values;
  visit(x.dtype(), [&]<class T>() {
    values.statistics =
        statistics_of(std::span(static_cast<const T*>(contents), static_cast<size_t>(x.count())));
  });
  return values;
}

int64_t TapeEntry::saved_bytes() const {
  int64_t bytes = 0;
  for (const TapeSaved& one : saved) bytes += one.bytes;
  return bytes;
}

namespace {

// What follows the attribute's name, up to the comma; nullopt when it is not there.
std::optional<std::string_view> attribute_text(std::string_view attributes, std::string_view name) {
  while (!attributes.empty()) {
    const size_t comma = std::min(attributes.find(", "), attributes.size());
    const std::string_view one = attributes.substr(0, comma);
    if (one.starts_with(name) && (one.size() == name.size() || one[name.size()] == ' ')) {
      return one.substr(name.size());
    }
    attributes.remove_prefix(std::min(comma + 2, attributes.size()));
  }
  return std::nullopt;
}

}  // namespace

std::vector<double> TapeEntry::attribute(std::string_view attribute_name) const {
  std::vector<double> values;
  std::string_view rest = attribute_text(attributes, attribute_name).value_or("");
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the blank
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc()) return {};
    values.push_back(value);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  return values;
}

bool TapeEntry::has_attribute(std::string_view attribute_name) const {
  return attribute_text(attributes, attribute_name).has_value();
}

std::vector<size_t> Recording::backward_order() const {
  std::vector<size_t> order;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].backward_step > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return entries[a].backward_step < entries[b].backward_step;
  });
  return order;
}

std::string Recording::label(size_t entry) const {
  const TapeEntry& one = entries[entry];
  return one.kind == TapeKind::op ? fmt::format("{} {}", one.number, one.name) : one.name;
}

}  // namespace whisker
