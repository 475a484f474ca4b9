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

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

// In lanes that the compiler keeps in vector registers.
struct ChunkSums {
  static constexpr size_t lanes = 8;
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  std::array<double, lanes> sum{}, squares{}, minimum, maximum;
  std::array<int64_t, lanes> zeros{}, not_finite{};

  ChunkSums() {
    minimum.fill(infinity);
    maximum.fill(-infinity);
  }
  void add(size_t lane, double x) {
    const bool finite = x - x == 0;
    const double value = finite ? x : 0;
    sum[lane] += value;
    squares[lane] += value * value;
    minimum[lane] = finite && x < minimum[lane] ? x : minimum[lane];
    maximum[lane] = finite && x > maximum[lane] ? x : maximum[lane];
    zeros[lane] += x == 0;
    not_finite[lane] += !finite;
  }
};

using Histogram = std::array<int64_t, std::tuple_size_v<decltype(TensorStatistics::histogram)>>;

// In halves: the range of finite values may lie beyond the largest double. Four tables, so that
// equal neighbours do not wait for each other.
template <class T>
Histogram histogram_of(std::span<const T> values, double minimum, double bins_per_half) {
  std::array<std::array<int32_t, std::tuple_size_v<Histogram>>, 4> tables{};
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = as_double(values[i]);
    if (!std::isfinite(x)) continue;
    const auto bin = static_cast<int32_t>((x / 2 - minimum / 2) * bins_per_half);
    ++tables[i % 4][static_cast<size_t>(std::min(bin, int32_t{tables[0].size() - 1}))];
  }
  Histogram sum{};
  for (const auto& table : tables) {
    for (size_t bin = 0; bin < sum.size(); ++bin) sum[bin] += table[bin];
  }
  return sum;
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
    const std::span<const T> part = chunk(i);
    ChunkSums local;
    size_t at = 0;
    for (; at + ChunkSums::lanes <= part.size(); at += ChunkSums::lanes) {
      for (size_t lane = 0; lane < ChunkSums::lanes; ++lane) {
        local.add(lane, as_double(part[at + lane]));
      }
    }
    for (; at < part.size(); ++at) local.add(0, as_double(part[at]));
    sums[static_cast<size_t>(i)] = local;
  }
  TensorStatistics result;
  double sum = 0, squares = 0, minimum = ChunkSums::infinity, maximum = -minimum;
  for (const ChunkSums& one : sums) {
    for (size_t lane = 0; lane < ChunkSums::lanes; ++lane) {
      sum += one.sum[lane];
      squares += one.squares[lane];
      minimum = std::min(minimum, one.minimum[lane]);
      maximum = std::max(maximum, one.maximum[lane]);
      result.zeros += one.zeros[lane];
      result.not_finite += one.not_finite[lane];
    }
  }
  const auto finite = static_cast<double>(count - result.not_finite);
  if (finite == 0) return result;
  result.mean = sum / finite;
  result.deviation = std::sqrt(std::max(0.0, squares / finite - result.mean * result.mean));
  result.minimum = minimum;
  result.maximum = maximum;
  result.norm = std::sqrt(squares);

  const double bins = static_cast<double>(result.histogram.size());
  const double bins_per_half = bins / (maximum / 2 - minimum / 2);
  const double scale = std::isfinite(bins_per_half) ? bins_per_half : 0;  // all in the first bin
  std::vector<Histogram> counts(static_cast<size_t>(chunks));
#pragma omp parallel for if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i) {
    counts[static_cast<size_t>(i)] = histogram_of(chunk(i), minimum, scale);
  }
  for (const Histogram& one : counts) {
    for (size_t bin = 0; bin < one.size(); ++bin) result.histogram[bin] += one[bin];
  }
  return result;
}

}  // namespace

TensorStatistics TensorStatistics::of(std::span<const double> values) {
  return statistics_of(values);
}

namespace {

// Calls `read` with the elements in host memory, row-major.
template <class Read>
void read_elements(const Tensor& x, Read read) {
  std::vector<char> copy;
  const void* contents = nullptr;
  if (x.is_cuda()) {
    copy.resize(static_cast<size_t>(x.bytes()));
    backend_of(x.device()).download(x.raw(), copy.data(), x.bytes());
    contents = copy.data();
  } else {
    contents = x.raw();
  }
  visit(x.dtype(), [&]<class T>() {
    read(std::span(static_cast<const T*>(contents), static_cast<size_t>(x.count())));
  });
}

}  // namespace

RecordedValues RecordedValues::of(const Tensor& x) {
  if (x.count() <= most_recorded_values) return {.all = x.to_vector()};
  RecordedValues values;
  read_elements(x, [&](auto elements) { values.statistics = statistics_of(elements); });
  return values;
}

int64_t zero_units(const Tensor& x) {
  if (x.rank() == 0 || x.count() == 0) return 0;
  const auto units = static_cast<size_t>(x.extent(-1));
  std::vector<uint8_t> alive(units, 0);
  read_elements(x, [&](auto elements) {
    for (size_t begin = 0; begin < elements.size(); begin += units) {
      for (size_t i = 0; i < units; ++i) {
        if (as_double(elements[begin + i]) != 0) alive[i] = 1;
      }
    }
  });
  return std::count(alive.begin(), alive.end(), uint8_t{0});
}

int64_t TapeEntry::saved_bytes() const {
  if (recomputed()) return 0;
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

size_t first_recomputed(std::span<const TapeEntry> entries, size_t recompute) {
  const std::vector<double> operators = entries[recompute].attribute("operators");
  double left = operators.empty() ? 0 : operators[0];
  size_t first = recompute;
  for (; first > 0 && left > 0; --first) left -= entries[first - 1].on_tape() ? 1 : 0;
  return first;
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
