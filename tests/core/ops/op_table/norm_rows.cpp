// Batch, layer and group normalisation from their definitions, and what is fused with a batch norm.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <cmath>

namespace whisker::test {
namespace {

struct Statistics {
  double mean = 0, variance = 0;  // biased
};

Statistics statistics_of(const Values& v) {
  Statistics s;
  for (const double value : v) s.mean += value / static_cast<double>(v.size());
  for (const double value : v) {
    s.variance += (value - s.mean) * (value - s.mean) / static_cast<double>(v.size());
  }
  return s;
}

struct BatchNormCase {
  const char* name;
  Shape shape;
  bool training = true;
  bool residual = false;
  Activation activation = Activation::none;
  double beta = 0;  // in the middle
};

/// Running statistics of inference: mean 0.1 c, variance 0.5 + 0.25 c.
BatchNormState running_state(const Tensor& x) {
  const TensorOptions options{.dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32,
                              .device = x.device()};
  Values mean, variance;
  for (int64_t c = 0; c < x.extent(-1); ++c) {
    mean.push_back(0.125 * static_cast<double>(c));
    variance.push_back(0.5 + 0.25 * static_cast<double>(c));
  }
  const Shape channels{x.extent(-1)};
  return {.running_mean = from_vector(mean, channels, options),
          .running_var = from_vector(variance, channels, options),
          .pending_mean = empty(channels, options),
          .pending_var = empty(channels, options)};
}

/// gamma and beta stay f32 for 16-bit images.
Tensor parameter(const Tensor& p) {
  return size_of(p.dtype()) == 2 ? p.to(DType::f32) : p;
}

Values plain_batch_norm(const BatchNormCase& s, Plain x) {
  const auto channels = static_cast<size_t>(s.shape[-1]);
  Values y(x[0].size());
  for (size_t c = 0; c < channels; ++c) {
    Values column;
    for (size_t i = c; i < y.size(); i += channels) column.push_back(x[0][i]);
    Statistics statistics = statistics_of(column);
    if (!s.training) {
      statistics = {0.125 * static_cast<double>(c), 0.5 + 0.25 * static_cast<double>(c)};
    }
    for (size_t i = c; i < y.size(); i += channels) {
      const double normalised = (x[0][i] - statistics.mean) / std::sqrt(statistics.variance + 1e-5);
      y[i] = plain_activation({s.activation},
                              normalised * x[1][c] + x[2][c] + (s.residual ? x[3][i] : 0));
    }
  }
  return y;
}

std::vector<OpCase> batch_norm_rows() {
  using enum Activation;
  const BatchNormCase cases[] = {
      {"training", {4, 3, 2, 5}},
      {"training_rank_2", {9, 3}},
      {"training_two_rows_17_channels", {2, 17}},
      {"training_relu", {2, 3, 3, 4}, true, false, relu},
      {"training_residual", {2, 3, 2, 3}, true, true},
      {"training_residual_relu", {2, 3, 3, 4}, true, true, relu},
      {"training_tanh", {2, 3, 2, 3}, true, false, tanh},
      {"training_relu6", {2, 3, 3, 4}, true, false, relu6, 5},
      {"training_relu6_16_channels", {1, 3, 2, 16}, true, false, relu6, 1},
      {"training_hard_swish", {2, 3, 3, 4}, true, false, hard_swish, 2},
      {"training_hard_swish_16_channels", {1, 3, 2, 16}, true, false, hard_swish},
      {"training_silu", {2, 3, 3, 4}, true, false, silu},
      {"training_silu_16_channels", {1, 3, 2, 16}, true, false, silu},
      {"training_residual_silu", {2, 3, 3, 4}, true, true, silu},
      {"inference", {2, 3, 2, 5}, false},
      {"inference_silu", {2, 3, 2, 5}, false, false, silu},
      {"inference_one_row", {1, 3}, false},
      {"inference_residual_relu", {2, 2, 2, 3}, false, true, relu},
  };
  std::vector<OpCase> rows;
  for (const BatchNormCase& s : cases) {
    const Shape channels{s.shape[-1]};
    std::vector<Input> inputs{variable(s.shape, -2, 3), variable(channels, 0.5, 1.5),
                              variable(channels, s.beta - 1, s.beta + 1)};
    if (s.residual) inputs.push_back(variable(s.shape));
    rows.push_back({.name = fmt::format("batch_norm_{}", s.name),
                    .inputs = inputs,
                    .op =
                        [s](Inputs x) {
                          return batch_norm(x[0], parameter(x[1]), parameter(x[2]),
                                            running_state(x[0]),
                                            {.training = s.training, .activation = {s.activation}},
                                            s.residual ? x[3] : Tensor());
                        },
                    .expected = [s](Plain x) { return plain_batch_norm(s, x); },
                    .twice = Twice::refused,
                    .terms = s.shape.count(),
                    .scale = 3});
  }
  return rows;
}

// Squeeze-and-excitation behind batch_norm: y times its mean over the image. Images of one pixel, a
// single image, packs of channels and none.
std::vector<OpCase> squeeze_excite_rows() {
  using enum Activation;
  const BatchNormCase cases[] = {
      {"plain", {3, 2, 3, 5}},
      {"one_pixel", {5, 1, 1, 3}},
      {"one_pixel_16_channels", {4, 1, 1, 16}},
      {"silu", {2, 3, 3, 4}, true, false, silu},
      {"silu_one_image_16_channels", {1, 4, 3, 16}, true, false, silu},
      {"hard_swish_16_channels", {3, 2, 3, 16}, true, false, hard_swish},
      {"relu", {2, 3, 3, 4}, true, false, relu},
      {"residual_relu", {2, 3, 3, 4}, true, true, relu},
      {"inference_silu", {2, 3, 2, 8}, false, false, silu},
  };
  std::vector<OpCase> rows;
  for (const BatchNormCase& s : cases) {
    const Shape channels{s.shape[-1]};
    std::vector<Input> inputs{variable(s.shape, -2, 3), variable(channels, 0.5, 1.5),
                              variable(channels)};
    if (s.residual) inputs.push_back(variable(s.shape));
    rows.push_back({.name = fmt::format("batch_norm_excite_{}", s.name),
                    .inputs = inputs,
                    .op =
                        [s](Inputs x) {
                          return batch_norm_excite(
                              x[0],
                              {parameter(x[1]),
                               parameter(x[2]),
                               running_state(x[0]),
                               {.training = s.training, .activation = {s.activation}},
                               s.residual ? x[3] : Tensor()},
                              [](const Tensor& average) { return average; });
                        },
                    .expected =
                        [s](Plain x) {
                          Values y = plain_batch_norm(s, x);
                          const auto width = static_cast<size_t>(s.shape[3]);
                          const size_t image = y.size() / static_cast<size_t>(s.shape[0]);
                          for (size_t first = 0; first < y.size(); first += image) {
                            for (size_t c = first; c < first + width; ++c) {
                              double sum = 0;
                              for (size_t i = c; i < first + image; i += width) sum += y[i];
                              const double average =
                                  sum * static_cast<double>(width) / static_cast<double>(image);
                              for (size_t i = c; i < first + image; i += width) y[i] *= average;
                            }
                          }
                          return y;
                        },
                    .twice = Twice::refused,
                    .terms = s.shape.count(),
                    .scale = 4});
  }
  return rows;
}

// A 1x1 convolution of what batch_norm and relu make of x.
Values plain_convolved(const Values& z, size_t channels, const Values& w) {
  Values y;
  for (size_t row = 0; row < z.size(); row += channels) {
    for (size_t k = 0; k < w.size() / channels; ++k) {
      double sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += z[row + c] * w[k * channels + c];
      y.push_back(sum);
    }
  }
  return y;
}

BatchNormOperands norm_behind(Inputs x) {
  return {.gamma = parameter(x[1]),
          .beta = parameter(x[2]),
          .state = running_state(x[0]),
          .options = {.training = true, .activation = {Activation::relu}}};
}

OpCase convolved_norm_row() {
  constexpr size_t channels = 8, filters = 16;
  const BatchNormCase norm{"", {2, 3, 3, channels}, true, false, Activation::relu};
  return {
      .name = "batch_norm_conv2d_relu",
      .inputs = {variable(norm.shape, -2, 3), variable({channels}, 0.5, 1.5), variable({channels}),
                 variable({filters, 1, 1, channels})},
      .op = [](Inputs x) { return batch_norm_conv2d(x[0], norm_behind(x), x[3]).y; },
      .expected =
          [norm](Plain x) { return plain_convolved(plain_batch_norm(norm, x), channels, x[3]); },
      .twice = Twice::refused,
      .terms = norm.shape.count(),
      .scale = 3};
}

// Two batch norms whose results are added before the first one's activation.
std::vector<OpCase> add_batch_norms_rows() {
  const BatchNormCase cases[] = {
      {"plain", {4, 3, 2, 5}, true, true},
      {"17_channels", {6, 17}, true, true},
      {"relu", {2, 3, 3, 4}, true, true, Activation::relu},
      {"relu_of_packs", {4, 2, 1, 16}, true, true, Activation::relu},
      {"inference_relu", {2, 2, 2, 3}, false, true, Activation::relu},
  };
  std::vector<OpCase> rows;
  for (const BatchNormCase& s : cases) {
    const Shape channels{s.shape[-1]};
    const auto norm = [s](Inputs x, size_t first) {
      return BatchNormOperands{.gamma = parameter(x[first + 1]),
                               .beta = parameter(x[first + 2]),
                               .state = running_state(x[first]),
                               .options = {.training = s.training}};
    };
    rows.push_back({.name = fmt::format("add_batch_norms_{}", s.name),
                    .inputs = {variable(s.shape, -2, 3), variable(channels, 0.5, 1.5),
                               variable(channels), variable(s.shape, -1, 2),
                               variable(channels, -1.5, -0.5), variable(channels, 0, 1)},
                    .op =
                        [s, norm](Inputs x) {
                          BatchNormOperands own = norm(x, 0);
                          own.options.activation = {s.activation};
                          return add_batch_norms(x[0], own, x[3], norm(x, 3));
                        },
                    .expected =
                        [s](Plain x) {
                          BatchNormCase added = s;
                          added.residual = false;
                          added.activation = Activation::none;
                          return plain_batch_norm(
                              s, {x[0], x[1], x[2], plain_batch_norm(added, {x[3], x[4], x[5]})});
                        },
                    .twice = Twice::refused,
                    .terms = s.shape.count(),
                    .scale = 3});
  }
  return rows;
}

// A batch norm and the max-pooling behind it, one after the other.
std::vector<OpCase> norm_pool_rows() {
  struct Case {
    SmallPool pool;
    double low = 0.75, high = 1.5;  // of gamma: so far from 0 that 16 bits tell the elements apart
    bool relu = true;
  };
  const Pool2dOptions stem{.kernel = 3, .stride = Pair(2), .padding = 1};
  const Case cases[] = {
      {{"3x3_stride_2_pad_1", {2, 7, 6, 3}, stem, {4, 3}}},
      {{"falling", {1, 5, 6, 3}, stem, {3, 3}}, -1.5, -0.75},
      {{"rising_and_falling_plain", {1, 6, 5, 4}, stem, {3, 3}}, -2, 2, false},
      {{"packs", {1, 3, 4, 16}, stem, {2, 2}}},
      {{"packs_falling_plain", {1, 3, 4, 16}, stem, {2, 2}}, -2, -1, false},
      {{"ceil", {1, 6, 7, 2}, {.kernel = 3, .stride = Pair(2), .ceil = true}, {3, 3}}},
      {{"2x2", {2, 4, 6, 5}, {.kernel = 2}, {2, 3}}},
      {{"2x2_odd_image", {1, 5, 7, 3}, {.kernel = 2}, {2, 3}}, -1.5, -0.75},
      {{"2x2_pad_1", {1, 5, 4, 3}, {.kernel = 2, .padding = 1}, {3, 3}}},
  };
  std::vector<OpCase> rows;
  for (const Case& s : cases) {
    const Shape shape = s.pool.x, channels{shape[3]};
    const BatchNormCase norm{"", shape, true, false, s.relu ? Activation::relu : Activation::none};
    rows.push_back(
        {.name = fmt::format("batch_norm_max_pool2d_{}", s.pool.name),
         .inputs = {variable(shape, -2, 3), variable(channels, s.low, s.high), variable(channels)},
         .op =
             [s, norm](Inputs x) {
               BatchNormOperands operands = norm_behind(x);
               operands.options.activation = {norm.activation};
               return batch_norm_max_pool2d(x[0], operands, s.pool.options);
             },
         .expected =
             [s, norm](Plain x) { return plain_pool2d(s.pool, false, plain_batch_norm(norm, x)); },
         .twice = Twice::refused,
         .terms = shape.count(),
         .scale = 3});
  }
  return rows;
}

std::vector<OpCase> group_norm_rows() {
  struct Case {
    const char* name;
    Shape shape;
    int64_t groups;
  };
  const Case cases[] = {{"pairs", {2, 3, 2, 6}, 3},
                        {"one_group", {3, 2, 2, 5}, 1},
                        {"group_per_channel", {2, 5, 3}, 3},
                        {"one_image", {1, 2, 3, 8}, 2},
                        {"rank_2", {4, 17}, 1},
                        {"one_position", {3, 1, 1, 12}, 4}};
  std::vector<OpCase> rows;
  for (const Case& s : cases) {
    const Shape channels{s.shape[-1]};
    rows.push_back(
        {.name = fmt::format("group_norm_{}", s.name),
         .inputs = {variable(s.shape, -2, 3), variable(channels, 0.5, 1.5), variable(channels)},
         .op =
             [s](Inputs x) {
               return group_norm(x[0], parameter(x[1]), parameter(x[2]), {.groups = s.groups});
             },
         .expected =
             [s](Plain x) {
               const auto width = static_cast<size_t>(s.shape[-1]);
               const size_t per_group = width / static_cast<size_t>(s.groups);
               const size_t example = x[0].size() / static_cast<size_t>(s.shape[0]);
               Values y(x[0].size());
               for (size_t n = 0; n < y.size(); n += example) {
                 for (size_t first = 0; first < width; first += per_group) {
                   Values group;
                   for (size_t i = n; i < n + example; ++i) {
                     if (i % width / per_group == first / per_group) group.push_back(x[0][i]);
                   }
                   const Statistics of = statistics_of(group);
                   for (size_t i = n; i < n + example; ++i) {
                     const size_t c = i % width;
                     if (c / per_group != first / per_group) continue;
                     y[i] = (x[0][i] - of.mean) / std::sqrt(of.variance + 1e-5) * x[1][c] + x[2][c];
                   }
                 }
               }
               return y;
             },
         .twice = Twice::refused,
         .terms = s.shape.count(),
         .scale = 3});
  }
  return rows;
}

}  // namespace

std::vector<OpCase> norm_rows() {
  std::vector<OpCase> rows = batch_norm_rows();
  append(rows, squeeze_excite_rows());
  append(rows, add_batch_norms_rows());
  append(rows, norm_pool_rows());
  append(rows, group_norm_rows());
  rows.push_back(convolved_norm_row());
  for (const Shape& shape : {Shape{4, 9}, Shape{2, 3, 17}, Shape{5}, Shape{3, 8}, Shape{2, 40}}) {
    const Shape features{shape[-1]};
    rows.push_back(
        {.name = fmt::format("layer_norm_{}", tag(shape)),
         .inputs = {variable(shape, -2, 3), variable(features, 0.5, 1.5), variable(features)},
         .op = [](Inputs x) { return layer_norm(x[0], parameter(x[1]), parameter(x[2])); },
         .expected =
             [shape](Plain x) {
               const auto width = static_cast<size_t>(shape[-1]);
               Values y;
               for (size_t first = 0; first < x[0].size(); first += width) {
                 const auto row = x[0].begin() + static_cast<int64_t>(first);
                 const Statistics s = statistics_of(Values(row, row + static_cast<int64_t>(width)));
                 for (size_t f = 0; f < width; ++f) {
                   y.push_back((x[0][first + f] - s.mean) / std::sqrt(s.variance + 1e-5) * x[1][f] +
                               x[2][f]);
                 }
               }
               return y;
             },
         .twice = Twice::refused,
         .terms = shape.count(),
         .scale = 3});
  }
  return rows;
}

}  // namespace whisker::test
