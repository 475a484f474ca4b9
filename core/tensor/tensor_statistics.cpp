// Statistics are taken in chunks of a fixed size, whose sums are added in order: the same numbers
// for any number of threads.
#include "core/tensor/tensor_statistics.h"

#include "core/vectorize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

// In lanes, which the compiler keeps in vector registers.
struct ChunkSums {
  static constexpr size_t lanes = 16;
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
    const double low = finite ? x : infinity, high = finite ? x : -infinity;
    sum[lane] += value;
    squares[lane] += value * value;
    minimum[lane] = low < minimum[lane] ? low : minimum[lane];
    maximum[lane] = high > maximum[lane] ? high : maximum[lane];
    zeros[lane] += x == 0;
    not_finite[lane] += !finite;
  }
};

template <class T>
WHISKER_VECTORIZE void sum_chunk(const T* values, size_t count, ChunkSums& result) {
  ChunkSums sums;
  size_t at = 0;
  for (; at + ChunkSums::lanes <= count; at += ChunkSums::lanes) {
    for (size_t lane = 0; lane < ChunkSums::lanes; ++lane) {
      sums.add(lane, as_double(values[at + lane]));
    }
  }
  for (; at < count; ++at) sums.add(0, as_double(values[at]));
  result = sums;
}

using Histogram = std::array<int64_t, std::tuple_size_v<decltype(TensorStatistics::histogram)>>;
constexpr size_t bin_count = std::tuple_size_v<Histogram>;

constexpr size_t block = 512, row = 64;  // of a table of pairs, above bin_count

// Pairs of the bins of `count` values, one of each half of a block: first * row + second. The bin
// is bin_count where a value is not finite, and beyond the last. In halves: the range of finite
// values may lie beyond the largest double.
template <class Real, class T>
WHISKER_VECTORIZE void pairs_of(const T* values, size_t count, Real minimum, Real bins_per_half,
                                uint16_t* pairs) {
  constexpr Real last = bin_count - 1;
  std::array<int32_t, block> bins;
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<Real>(as_double(values[i]));
    const Real bin = (x / 2 - minimum / 2) * bins_per_half;
    bins[i] = static_cast<int32_t>(x - x != 0 ? last + 1 : bin < last ? bin : last);
  }
  for (size_t i = count; i < block; ++i) bins[i] = bin_count;
  for (size_t i = 0; i < block / 2; ++i) {
    pairs[i] = static_cast<uint16_t>(bins[i] * static_cast<int32_t>(row) + bins[block / 2 + i]);
  }
}

// Counts pairs: one step for two values. Two tables, so that equal neighbours do not wait for each
// other.
template <class Real, class T>
Histogram histogram_of(std::span<const T> values, Real minimum, Real bins_per_half) {
  std::array<std::array<int32_t, (bin_count + 1) * row>, 2> tables{};
  std::array<uint16_t, block / 2> pairs;
  for (size_t begin = 0; begin < values.size(); begin += block) {
    const size_t count = std::min(block, values.size() - begin);
    pairs_of(values.data() + begin, count, minimum, bins_per_half, pairs.data());
    for (size_t i = 0; i < pairs.size(); i += 2) {
      ++tables[0][pairs[i]];
      ++tables[1][pairs[i + 1]];
    }
  }
  Histogram sum{};
  for (size_t first = 0; first <= bin_count; ++first) {
    for (size_t second = 0; second <= bin_count; ++second) {
      const size_t pair = first * row + second;
      const int32_t count = tables[0][pair] + tables[1][pair];
      if (first < bin_count) sum[first] += count;
      if (second < bin_count) sum[second] += count;
    }
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
#pragma omp parallel for schedule(dynamic) if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i) {
    const std::span<const T> part = chunk(i);
    sum_chunk(part.data(), part.size(), sums[static_cast<size_t>(i)]);
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
  // Integers may have more digits than a float.
  const bool in_single =
      !std::is_integral_v<T> && sizeof(T) <= 4 && scale <= std::numeric_limits<float>::max();
  std::vector<Histogram> counts(static_cast<size_t>(chunks));
#pragma omp parallel for schedule(dynamic) if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i) {
    Histogram& own = counts[static_cast<size_t>(i)];
    own = in_single ? histogram_of(chunk(i), static_cast<float>(minimum), static_cast<float>(scale))
                    : histogram_of(chunk(i), minimum, scale);
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

TensorStatistics TensorStatistics::of(const void* values, DType dtype, int64_t count) {
  return visit(dtype, [&]<class T>() {
    return statistics_of(std::span(static_cast<const T*>(values), static_cast<size_t>(count)));
  });
}

}  // namespace whisker
