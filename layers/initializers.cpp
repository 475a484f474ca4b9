// Draws go block by block, so element i depends on (seed, stream, i) alone.
#include "layers/initializers.h"

#include "core/tensor/philox.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace whisker {
namespace {

struct NamedInitializer {
  const char* name;
  InitializerSpec spec;
};

const std::vector<NamedInitializer>& named_initializers() {
  using enum InitializerKind;
  static const std::vector<NamedInitializer> rows = {
      {"pytorch", {.kind = torch_default}},
      {"kaiming_uniform", {.kind = kaiming_uniform}},
      {"kaiming_normal", {.kind = kaiming_normal}},
      {"he_uniform", {.kind = kaiming_uniform}},
      {"he_normal", {.kind = kaiming_normal}},
      {"glorot_uniform", {.kind = glorot_uniform}},
      {"glorot_normal", {.kind = glorot_normal}},
      {"xavier_uniform", {.kind = glorot_uniform}},
      {"xavier_normal", {.kind = glorot_normal}},
      {"orthogonal", {.kind = orthogonal}},
      {"uniform", {.kind = uniform}},
      {"random_uniform", {.kind = uniform}},
      {"normal", {.kind = normal}},
      {"random_normal", {.kind = normal}},
      {"zeros", InitializerSpec::zeros()},
      {"ones", InitializerSpec::ones()},
      {"constant", {.kind = constant}},
  };
  return rows;
}

// Words [4 first, 4 first + words.size()) of (seed, stream), several blocks per loop so that the
// compiler can keep them in vector registers.
constexpr size_t blocks_at_once = 16;
using Words = std::array<uint32_t, 4 * blocks_at_once>;

void draw_words(uint64_t seed, uint64_t stream, uint64_t first, Words& words) {
  for (size_t b = 0; b < blocks_at_once; ++b) {
    const PhiloxBlock block = philox_block(seed, stream, first + b);
    std::copy(block.begin(), block.end(), words.begin() + static_cast<ptrdiff_t>(4 * b));
  }
}

// Calls convert(words, values) for each run of words; the last run may be cut short.
template <class Convert>
void for_each_run(uint64_t seed, uint64_t stream, std::span<float> values, Convert convert) {
  Words words;
  std::array<float, std::tuple_size_v<Words>> run;
  for (size_t i = 0; i < values.size(); i += run.size()) {
    draw_words(seed, stream, i / 4, words);
    convert(words, run);
    const size_t count = std::min(run.size(), values.size() - i);
    std::copy_n(run.begin(), count, values.begin() + static_cast<ptrdiff_t>(i));
  }
}

Initializer draw_uniform(double low, double high) {
  return [low = static_cast<float>(low), width = static_cast<float>(high - low)](
             uint64_t seed, uint64_t stream, std::span<float> values) {
    for_each_run(seed, stream, values, [&](const Words& words, auto& run) {
      for (size_t j = 0; j < run.size(); ++j) run[j] = low + width * uniform_from(words[j]);
    });
  };
}

// Box and Muller (1958), both branches; the half keeps the logarithm's argument above zero.
Initializer draw_normal(double mean, double deviation) {
  return [mean = static_cast<float>(mean), deviation = static_cast<float>(deviation)](
             uint64_t seed, uint64_t stream, std::span<float> values) {
    for_each_run(seed, stream, values, [&](const Words& words, auto& run) {
      for (size_t j = 0; j < run.size(); j += 2) {
        const float u = (static_cast<float>(words[j] >> 9) + 0.5f) * 0x1p-23f;
        const float radius = deviation * std::sqrt(-2 * std::log(u));
        const float angle = 2 * std::numbers::pi_v<float> * uniform_from(words[j + 1]);
        run[j] = mean + radius * std::cos(angle);
        run[j + 1] = mean + radius * std::sin(angle);
      }
    });
  };
}

// Eight sums side by side, which the compiler keeps in vector registers.
double dot(const double* a, const double* b, size_t count) {
  std::array<double, 8> sums{};
  size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// Modified Gram-Schmidt (Golub and Van Loan, "Matrix Computations", section 5.2.8): makes the
// `count` rows of `length` elements orthonormal.
void orthonormalise(std::vector<double>& rows, size_t count, size_t length) {
  for (size_t i = 0; i < count; ++i) {
    double* own = rows.data() + i * length;
    const double norm = std::sqrt(dot(own, own, length));
    for (size_t k = 0; k < length; ++k) own[k] = norm > 0 ? own[k] / norm : 0;
    for (size_t j = i + 1; j < count; ++j) {
      double* other = rows.data() + j * length;
      const double along = dot(own, other, length);
      for (size_t k = 0; k < length; ++k) other[k] -= along * own[k];
    }
  }
}

// A matrix of `columns` columns, from normal draws; the shorter of its sides is orthonormal.
Initializer draw_orthogonal(int64_t columns) {
  return [columns = static_cast<size_t>(columns)](uint64_t seed, uint64_t stream,
                                                  std::span<float> values) {
    draw_normal(0, 1)(seed, stream, values);
    std::vector<double> draws(values.begin(), values.end());
    const size_t rows = values.size() / columns;
    orthonormalise(draws, std::min(rows, columns), std::max(rows, columns));
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / columns;
      const size_t column = i % columns;
      values[i] = static_cast<float>(draws[rows < columns ? i : column * rows + row]);
    }
  };
}

Initializer draw_constant(double value) {
  return [value](uint64_t, uint64_t, std::span<float> values) {
    std::fill(values.begin(), values.end(), static_cast<float>(value));
  };
}

Initializer draw_within(double bound) {
  return draw_uniform(-bound, bound);
}

}  // namespace

Fans fans_of(const Shape& weight) {
  int64_t area = 1;
  for (int axis = 1; axis + 1 < weight.rank(); ++axis) area *= weight[axis];
  return {.in = area * weight[-1], .out = area * weight[0]};
}

Initializer make_initializer(const InitializerSpec& spec, Fans fans, bool bias) {
  using enum InitializerKind;
  const bool needs_fans = spec.kind == kaiming_uniform || spec.kind == kaiming_normal ||
                          spec.kind == glorot_uniform || spec.kind == glorot_normal ||
                          spec.kind == orthogonal;
  if (bias && needs_fans) {
    fail(ErrorKind::usage,
         "initializer: kaiming, glorot and orthogonal describe weights; give the bias zeros, a "
         "constant, uniform or normal values");
  }
  const auto fan_in = static_cast<double>(std::max<int64_t>(fans.in, 1));
  const auto fan_out = static_cast<double>(std::max<int64_t>(fans.out, 1));
  const double fan = spec.fan_out ? fan_out : fan_in;
  const double gain_squared = 2 / (1 + spec.slope * spec.slope);
  switch (spec.kind) {
    case torch_default:
      // A weight's gain^2 = 2 / (1 + 5) makes the bound sqrt(3 gain^2 / fan) the same.
      return draw_within(1 / std::sqrt(fan_in));
    case kaiming_uniform:
      return draw_within(std::sqrt(3 * gain_squared / fan));
    case kaiming_normal:
      return draw_normal(0, std::sqrt(gain_squared / fan));
    case glorot_uniform:
      return draw_within(std::sqrt(6 / (fan_in + fan_out)));
    case glorot_normal:
      return draw_normal(0, std::sqrt(2 / (fan_in + fan_out)));
    case orthogonal:
      return draw_orthogonal(fans.in);
    case uniform:
      return draw_uniform(spec.low, spec.high);
    case normal:
      return draw_normal(spec.mean, spec.deviation);
    case constant:
      return draw_constant(spec.value);
  }
  fail(ErrorKind::internal, "initializer: kind {} is not one of ours", static_cast<int>(spec.kind));
}

std::optional<InitializerSpec> find_initializer(std::string_view name) {
  for (const NamedInitializer& row : named_initializers()) {
    if (name == row.name) return row.spec;
  }
  return std::nullopt;
}

std::vector<std::string> initializer_names() {
  std::vector<std::string> names;
  for (const NamedInitializer& row : named_initializers()) names.push_back(row.name);
  return names;
}

}  // namespace whisker
