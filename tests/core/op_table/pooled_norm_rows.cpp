// A batch norm and the max-pooling behind it from their definitions, one after the other.
#include "tests/core/op_table/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace whisker::test {
namespace {

struct PooledNormCase {
  const char* name;
  Shape x;  // (N,H,W,C)
  Pool2dOptions pool;
  int64_t h_out, w_out, pad = 0;  // counted by hand
  double low = 0.75, high = 1.5;  // of gamma: so far from 0 that 16 bits tell the elements apart
  bool relu = true;
};

/// Element p of channel c at (n, row, column); -infinity beyond the picture.
double element_at(const Shape& shape, const Values& x, int64_t n, int64_t row, int64_t column,
                  int64_t c) {
  if (row < 0 || row >= shape[1] || column < 0 || column >= shape[2]) {
    return -std::numeric_limits<double>::infinity();
  }
  return x[static_cast<size_t>(((n * shape[1] + row) * shape[2] + column) * shape[3] + c)];
}

Values plain_norm(const PooledNormCase& s, Plain x) {
  const auto channels = static_cast<size_t>(s.x[3]);
  const double rows = static_cast<double>(x[0].size() / channels);
  Values z(x[0].size());
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (size_t i = c; i < z.size(); i += channels) mean += x[0][i] / rows;
    for (size_t i = c; i < z.size(); i += channels) {
      variance += (x[0][i] - mean) * (x[0][i] - mean) / rows;
    }
    for (size_t i = c; i < z.size(); i += channels) {
      z[i] = (x[0][i] - mean) / std::sqrt(variance + 1e-5) * x[1][c] + x[2][c];
      if (s.relu) z[i] = std::max(z[i], 0.0);
    }
  }
  return z;
}

Values plain_pooled_norm(const PooledNormCase& s, Plain x) {
  const Values z = plain_norm(s, x);
  const Pair kernel = s.pool.kernel, stride = s.pool.stride.value_or(kernel);
  Values y;
  for (int64_t at = 0; at < s.x[0] * s.h_out * s.w_out * s.x[3]; ++at) {
    const Index i = index_of(at, {s.x[0], s.h_out, s.w_out, s.x[3]});
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t place = 0; place < kernel.h * kernel.w; ++place) {
      const int64_t row = i[1] * stride.h - s.pad + place / kernel.w;
      const int64_t column = i[2] * stride.w - s.pad + place % kernel.w;
      largest = std::max(largest, element_at(s.x, z, i[0], row, column, i[3]));
    }
    y.push_back(largest);
  }
  return y;
}

/// gamma and beta stay f32 for 16-bit pictures.
Tensor parameter(const Tensor& p) {
  return size_of(p.dtype()) == 2 ? p.to(DType::f32) : p;
}

}  // namespace

std::vector<OpCase> pooled_norm_rows() {
  const Pool2dOptions stem{.kernel = 3, .stride = Pair(2), .padding = 1};
  const PooledNormCase cases[] = {
      {"3x3_stride_2_pad_1", {2, 7, 6, 3}, stem, 4, 3, 1},
      {"falling", {1, 5, 6, 3}, stem, 3, 3, 1, -1.5, -0.75},
      {"rising_and_falling_plain", {1, 6, 5, 4}, stem, 3, 3, 1, -2, 2, false},
      {"packs", {1, 3, 4, 16}, stem, 2, 2, 1},
      {"packs_falling_plain", {1, 3, 4, 16}, stem, 2, 2, 1, -2, -1, false},
      {"ceil", {1, 6, 7, 2}, {.kernel = 3, .stride = Pair(2), .ceil = true}, 3, 3},
      {"2x2", {2, 4, 6, 5}, {.kernel = 2}, 2, 3},
      {"2x2_odd_picture", {1, 5, 7, 3}, {.kernel = 2}, 2, 3, 0, -1.5, -0.75},
      {"2x2_pad_1", {1, 5, 4, 3}, {.kernel = 2, .padding = 1}, 3, 3, 1},
  };
  std::vector<OpCase> rows;
  for (const PooledNormCase& s : cases) {
    const Shape channels{s.x[3]};
    const auto op = [s, channels](Inputs x) {
      const TensorOptions statistics{.dtype = parameter(x[1]).dtype(), .device = x[0].device()};
      BatchNormOperands norm{.gamma = parameter(x[1]),
                             .beta = parameter(x[2]),
                             .state = {.running_mean = zeros(channels, statistics),
                                       .running_var = ones(channels, statistics),
                                       .pending_mean = empty(channels, statistics),
                                       .pending_var = empty(channels, statistics)},
                             .options = {.training = true}};
      if (s.relu) norm.options.activation = {Activation::relu};
      return batch_norm_max_pool2d(x[0], norm, s.pool);
    };
    rows.push_back(
        {.name = fmt::format("batch_norm_max_pool2d_{}", s.name),
         .inputs = {variable(s.x, -2, 3), variable(channels, s.low, s.high), variable(channels)},
         .op = op,
         .expected = [s](Plain x) { return plain_pooled_norm(s, x); },
         .twice = Twice::refused,
         .terms = s.x.count(),
         .scale = 3});
  }
  return rows;
}

}  // namespace whisker::test
