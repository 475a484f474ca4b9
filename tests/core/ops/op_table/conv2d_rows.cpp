// Convolution against a direct sum over an explicitly padded image, and the largest of windows of
// that.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <cmath>

namespace whisker::test {
namespace {

struct ConvCase {
  const char* name;
  int64_t n = 1, h = 5, w = 5, c = 1, c_out = 1, kernel_h = 3, kernel_w = 3;
  Conv2dOptions options = {};
  bool bias = true;
  // Padding before and after each axis, and what the plain loops apply to the sum.
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  double (*plain)(double) = [](double z) { return z; };
};

Values plain_conv2d(const ConvCase& s, const Values& x, const Values& filter, const Values& bias) {
  const int64_t rows = s.h + s.top + s.bottom;
  const int64_t columns = s.w + s.left + s.right;
  Values padded(static_cast<size_t>(s.n * rows * columns * s.c), 0.0);
  const auto at = [&](int64_t n, int64_t i, int64_t j, int64_t k) -> double& {
    return padded[static_cast<size_t>(((n * rows + i) * columns + j) * s.c + k)];
  };
  size_t next = 0;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t i = 0; i < s.h; ++i) {
      for (int64_t j = 0; j < s.w; ++j) {
        for (int64_t k = 0; k < s.c; ++k) at(n, i + s.top, j + s.left, k) = x[next++];
      }
    }
  }
  const int64_t per_group = s.c / s.options.groups;
  Values y;
  const auto [stride_h, stride_w] = s.options.stride;
  const auto [dilation_h, dilation_w] = s.options.dilation;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t i = 0; i + (s.kernel_h - 1) * dilation_h < rows; i += stride_h) {
      for (int64_t j = 0; j + (s.kernel_w - 1) * dilation_w < columns; j += stride_w) {
        for (int64_t k = 0; k < s.c_out; ++k) {
          const int64_t group = k * s.options.groups / s.c_out;
          double sum = s.bias ? bias[static_cast<size_t>(k)] : 0;
          auto tap = filter.begin() + k * s.kernel_h * s.kernel_w * per_group;
          for (int64_t p = 0; p < s.kernel_h; ++p) {
            for (int64_t q = 0; q < s.kernel_w; ++q) {
              for (int64_t c = 0; c < per_group; ++c) {
                sum +=
                    *tap++ * at(n, i + p * dilation_h, j + q * dilation_w, group * per_group + c);
              }
            }
          }
          y.push_back(s.plain(sum));
        }
      }
    }
  }
  return y;
}

// The largest of each window of z, which is a result of `s`.
Values plain_max_pool(const ConvCase& s, const Values& z) {
  const Conv2dGeometry g = conv2d_geometry({s.n, s.h, s.w, s.c},
                                           {s.c_out, s.kernel_h, s.kernel_w, s.c}, true, s.options);
  const Pool2dOptions& pool = *s.options.max_pool;
  const Pair stride = pool.stride.value_or(pool.kernel);
  const int64_t h_out = (g.h_out + 2 * pool.padding.h - pool.kernel.h) / stride.h + 1;
  const int64_t w_out = (g.w_out + 2 * pool.padding.w - pool.kernel.w) / stride.w + 1;
  return plain_pool2d(
      {"", g.n, g.h_out, g.w_out, g.c_out, pool, h_out, w_out, pool.padding.h, pool.padding.w},
      false, z);
}

std::vector<ConvCase> cases() {
  const auto relu = [](double z) { return z > 0 ? z : 0; };
  const auto silu = [](double z) { return z / (1 + std::exp(-z)); };
  const auto tanh = [](double z) { return std::tanh(z); };
  return {
      {.name = "1x1", .n = 2, .c = 3, .c_out = 4, .kernel_h = 1, .kernel_w = 1},
      {.name = "one_element", .h = 1, .w = 1, .kernel_h = 1, .kernel_w = 1},
      {.name = "3x3_valid",
       .n = 2,
       .c = 2,
       .c_out = 3,
       .options = {.padding_mode = PaddingMode::valid}},
      {.name = "3x3_pad_1",
       .n = 2,
       .h = 6,
       .w = 4,
       .c = 3,
       .c_out = 5,
       .options = {.padding = 1},
       .top = 1,
       .bottom = 1,
       .left = 1,
       .right = 1},
      {.name = "no_bias",
       .c = 2,
       .c_out = 2,
       .options = {.padding = 1},
       .bias = false,
       .top = 1,
       .bottom = 1,
       .left = 1,
       .right = 1},
      {.name = "stride_2", .h = 7, .w = 6, .c = 2, .c_out = 3, .options = {.stride = 2}},
      {.name = "stride_2x3_pad_2x1_kernel_5x2",
       .h = 7,
       .w = 9,
       .c = 2,
       .c_out = 2,
       .kernel_h = 5,
       .kernel_w = 2,
       .options = {.stride = {2, 3}, .padding = {2, 1}},
       .top = 2,
       .bottom = 2,
       .left = 1,
       .right = 1},
      {.name = "same_even_kernel",
       .h = 5,
       .w = 6,
       .c = 2,
       .c_out = 2,
       .kernel_h = 2,
       .kernel_w = 4,
       .options = {.padding_mode = PaddingMode::same},
       .top = 0,
       .bottom = 1,
       .left = 1,
       .right = 2},
      {.name = "same_stride_2",
       .h = 6,
       .w = 7,
       .c = 2,
       .c_out = 3,
       .options = {.stride = 2, .padding_mode = PaddingMode::same},
       .top = 0,
       .bottom = 1,
       .left = 1,
       .right = 1},
      {.name = "dilation_2", .h = 7, .w = 8, .c = 2, .c_out = 2, .options = {.dilation = 2}},
      {.name = "dilation_3x1_pad_3x0",
       .h = 5,
       .w = 4,
       .c = 1,
       .c_out = 2,
       .options = {.padding = {3, 0}, .dilation = {3, 1}},
       .top = 3,
       .bottom = 3},
      {.name = "groups_2",
       .n = 2,
       .c = 4,
       .c_out = 6,
       .options = {.padding = 1, .groups = 2},
       .top = 1,
       .bottom = 1,
       .left = 1,
       .right = 1},
      {.name = "depthwise", .h = 4, .c = 5, .c_out = 5, .options = {.groups = 5}},
      {.name = "depthwise_multiplier_2_stride_2",
       .h = 6,
       .c = 3,
       .c_out = 6,
       .options = {.stride = 2, .padding = 1, .groups = 3},
       .top = 1,
       .bottom = 1,
       .left = 1,
       .right = 1},
      {.name = "groups_dilation_stride",
       .h = 8,
       .w = 9,
       .c = 4,
       .c_out = 4,
       .options = {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}, .groups = 2},
       .top = 1,
       .bottom = 1,
       .left = 2,
       .right = 2},
      {.name = "kernel_is_image", .h = 4, .w = 3, .c = 2, .c_out = 3, .kernel_h = 4},
      {.name = "relu",
       .c = 3,
       .c_out = 8,
       .options = {.padding = 1, .activation = {Activation::relu}},
       .top = 1,
       .bottom = 1,
       .left = 1,
       .right = 1,
       .plain = relu},
      {.name = "tanh",
       .c = 2,
       .c_out = 3,
       .options = {.activation = {Activation::tanh}},
       .plain = tanh},
      {.name = "silu",
       .c = 2,
       .c_out = 3,
       .options = {.activation = {Activation::silu}},
       .plain = silu},
      {.name = "max_pool2d_2_relu",
       .n = 2,
       .h = 6,
       .w = 7,
       .c = 3,
       .c_out = 4,
       .options = {.activation = {Activation::relu}, .max_pool = Pool2dOptions{}},
       .plain = relu},
      {.name = "max_pool2d_3_stride_2_pad_1_tanh",
       .h = 6,
       .c = 2,
       .c_out = 3,
       .options = {.padding = 1,
                   .activation = {Activation::tanh},
                   .max_pool = Pool2dOptions{.kernel = 3, .stride = Pair(2), .padding = 1}},
       .top = 1,
       .bottom = 1,
       .left = 1,
       .right = 1,
       .plain = tanh},
      {.name = "max_pool2d_2x1_linear_17_channels",
       .h = 3,
       .w = 3,
       .c = 2,
       .c_out = 17,
       .kernel_h = 2,
       .options = {.max_pool = Pool2dOptions{.kernel = {2, 1}}},
       .bias = false},
      {.name = "16_to_17_channels", .h = 3, .w = 3, .c = 16, .c_out = 17},
  };
}

}  // namespace

std::vector<OpCase> conv2d_rows() {
  std::vector<OpCase> rows;
  for (const ConvCase& s : cases()) {
    std::vector<Input> inputs{
        variable({s.n, s.h, s.w, s.c}),
        variable({s.c_out, s.kernel_h, s.kernel_w, s.c / s.options.groups}, -0.7, 0.7)};
    if (s.bias) inputs.push_back(variable({s.c_out}));
    const int64_t terms = s.n * s.h * s.w + s.kernel_h * s.kernel_w * (s.c + s.c_out);
    rows.push_back(
        {.name = fmt::format("conv2d_{}", s.name),
         .inputs = inputs,
         .op = [s](Inputs x) { return conv2d(x[0], x[1], s.bias ? x[2] : Tensor(), s.options); },
         .expected =
             [s](Plain x) {
               const Values z = plain_conv2d(s, x[0], x[1], s.bias ? x[2] : Values());
               return s.options.max_pool ? plain_max_pool(s, z) : z;
             },
         .twice = Twice::refused,
         .terms = terms,
         .scale = 1});
    if (s.name != std::string_view("no_bias")) continue;
    rows.push_back(rows.back());
    rows.back().name = "conv2d_with_sums";
    rows.back().op = [s](Inputs x) { return conv2d_with_sums(x[0], x[1], s.options).y; };
  }
  return rows;
}

}  // namespace whisker::test
