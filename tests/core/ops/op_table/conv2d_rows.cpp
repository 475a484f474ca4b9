// Convolution against a direct sum over an explicitly padded image, and the largest of windows of
// that.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <cmath>

namespace whisker::test {
namespace {

// Extents of an image of zeros around an image.
struct Edges {
  int64_t top, bottom, left, right;
};

struct ConvCase {
  const char* name;
  Shape x, filter;
  Conv2dOptions options = {};
  // What the plain loops apply to the sum.
  double (*plain)(double) = [](double z) { return z; };
  bool bias = true;
  // Padding of PaddingMode::same, counted by hand.
  Edges edges = {};
};

Values plain_conv2d(const ConvCase& s, const Values& x, const Values& filter, const Values& bias) {
  const auto [pad_h, pad_w] = s.options.padding;
  const auto [top, bottom, left, right] =
      s.options.padding_mode == PaddingMode::number ? Edges{pad_h, pad_h, pad_w, pad_w} : s.edges;
  const int64_t images = s.x[0];
  const int64_t channels = s.x[3];
  const int64_t rows = s.x[1] + top + bottom;
  const int64_t columns = s.x[2] + left + right;
  Values padded(static_cast<size_t>(images * rows * columns * channels), 0.0);
  const auto at = [&](int64_t n, int64_t i, int64_t j, int64_t k) -> double& {
    return padded[static_cast<size_t>(((n * rows + i) * columns + j) * channels + k)];
  };
  size_t next = 0;
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t i = 0; i < s.x[1]; ++i) {
      for (int64_t j = 0; j < s.x[2]; ++j) {
        for (int64_t k = 0; k < channels; ++k) at(n, i + top, j + left, k) = x[next++];
      }
    }
  }
  const int64_t c_out = s.filter[0];
  const int64_t kernel_h = s.filter[1];
  const int64_t kernel_w = s.filter[2];
  const int64_t per_group = s.filter[3];
  Values y;
  const auto [stride_h, stride_w] = s.options.stride;
  const auto [dilation_h, dilation_w] = s.options.dilation;
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t i = 0; i + (kernel_h - 1) * dilation_h < rows; i += stride_h) {
      for (int64_t j = 0; j + (kernel_w - 1) * dilation_w < columns; j += stride_w) {
        for (int64_t k = 0; k < c_out; ++k) {
          const int64_t group = k * s.options.groups / c_out;
          double sum = s.bias ? bias[static_cast<size_t>(k)] : 0;
          auto tap = filter.begin() + k * kernel_h * kernel_w * per_group;
          for (int64_t p = 0; p < kernel_h; ++p) {
            for (int64_t q = 0; q < kernel_w; ++q) {
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
  const Conv2dGeometry g = conv2d_geometry(s.x, s.filter, true, s.options);
  const Pool2dOptions& pool = *s.options.max_pool;
  const Pair stride = pool.stride.value_or(pool.kernel);
  const int64_t h_out = (g.h_out + 2 * pool.padding.h - pool.kernel.h) / stride.h + 1;
  const int64_t w_out = (g.w_out + 2 * pool.padding.w - pool.kernel.w) / stride.w + 1;
  return plain_pool2d(
      {"", g.n, g.h_out, g.w_out, g.c_out, pool, h_out, w_out, pool.padding.h, pool.padding.w},
      false, z);
}

std::vector<ConvCase> cases() {
  const auto same = [](double z) { return z; };
  const auto relu = [](double z) { return z > 0 ? z : 0; };
  const auto silu = [](double z) { return z / (1 + std::exp(-z)); };
  return {
      {"1x1", {2, 5, 5, 3}, {4, 1, 1, 3}},
      {"one_element", {1, 1, 1, 1}, {1, 1, 1, 1}},
      {"3x3_valid", {2, 5, 5, 2}, {3, 3, 3, 2}, {.padding_mode = PaddingMode::valid}},
      {"3x3_pad_1", {2, 6, 4, 3}, {5, 3, 3, 3}, {.padding = 1}},
      {"stem_of_16", {2, 9, 21, 3}, {16, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {"stem_of_24", {1, 5, 40, 3}, {24, 3, 3, 3}, {.padding = 1}},
      {"no_bias", {1, 5, 5, 2}, {2, 3, 3, 2}, {.padding = 1}, same, false},
      {"stride_2", {1, 7, 6, 2}, {3, 3, 3, 2}, {.stride = 2}},
      {"stride_2x3_pad_2x1_kernel_5x2",
       {1, 7, 9, 2},
       {2, 5, 2, 2},
       {.stride = {2, 3}, .padding = {2, 1}}},
      {"same_even_kernel",
       {1, 5, 6, 2},
       {2, 2, 4, 2},
       {.padding_mode = PaddingMode::same},
       same,
       true,
       {0, 1, 1, 2}},
      {"same_stride_2",
       {1, 6, 7, 2},
       {3, 3, 3, 2},
       {.stride = 2, .padding_mode = PaddingMode::same},
       same,
       true,
       {0, 1, 1, 1}},
      {"dilation_2", {1, 7, 8, 2}, {2, 3, 3, 2}, {.dilation = 2}},
      {"dilation_3x1_pad_3x0", {1, 5, 4, 1}, {2, 3, 3, 1}, {.padding = {3, 0}, .dilation = {3, 1}}},
      {"groups_2", {2, 5, 5, 4}, {6, 3, 3, 2}, {.padding = 1, .groups = 2}},
      {"depthwise", {1, 4, 5, 5}, {5, 3, 3, 1}, {.groups = 5}},
      {"depthwise_8", {1, 5, 4, 8}, {8, 3, 3, 1}, {.padding = 1, .groups = 8}},
      {"depthwise_8_stride_2_valid", {2, 6, 7, 8}, {8, 3, 3, 1}, {.stride = 2, .groups = 8}},
      {"depthwise_16_kernel_5_stride_2_no_bias",
       {2, 7, 6, 16},
       {16, 5, 5, 1},
       {.stride = 2, .padding = 2, .groups = 16},
       same,
       false},
      {"depthwise_8_kernel_5_relu",
       {1, 4, 6, 8},
       {8, 5, 5, 1},
       {.padding = 2, .groups = 8, .activation = {Activation::relu}},
       relu},
      {"depthwise_8_kernel_7_same_stride_2",
       {1, 6, 5, 8},
       {8, 7, 7, 1},
       {.stride = 2, .padding_mode = PaddingMode::same, .groups = 8},
       same,
       true,
       {2, 3, 3, 3}},
      {"depthwise_multiplier_2_stride_2",
       {1, 6, 5, 3},
       {6, 3, 3, 1},
       {.stride = 2, .padding = 1, .groups = 3}},
      {"groups_dilation_stride",
       {1, 8, 9, 4},
       {4, 3, 3, 2},
       {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}, .groups = 2}},
      {"kernel_is_image", {1, 4, 3, 2}, {3, 4, 3, 2}},
      {"relu", {1, 5, 5, 3}, {8, 3, 3, 3}, {.padding = 1, .activation = {Activation::relu}}, relu},
      {"tanh", {1, 5, 5, 2}, {3, 3, 3, 2}, {.activation = {Activation::tanh}}, std::tanh},
      {"silu", {1, 5, 5, 2}, {3, 3, 3, 2}, {.activation = {Activation::silu}}, silu},
      {"max_pool2d_2_relu",
       {2, 6, 7, 3},
       {4, 3, 3, 3},
       {.activation = {Activation::relu}, .max_pool = Pool2dOptions{}},
       relu},
      {"max_pool2d_3_stride_2_pad_1_tanh",
       {1, 6, 5, 2},
       {3, 3, 3, 2},
       {.padding = 1,
        .activation = {Activation::tanh},
        .max_pool = Pool2dOptions{.kernel = 3, .stride = Pair(2), .padding = 1}},
       std::tanh},
      {"max_pool2d_2x1_linear_17_channels",
       {1, 3, 3, 2},
       {17, 2, 3, 2},
       {.max_pool = Pool2dOptions{.kernel = {2, 1}}},
       same,
       false},
      {"16_to_17_channels", {1, 3, 3, 16}, {17, 3, 3, 16}},
  };
}

struct ResidualCase {
  ConvCase conv;
  Shape y;
};

std::vector<ResidualCase> residual_cases() {
  const auto same = [](double z) { return z; };
  const auto relu = [](double z) { return z > 0 ? z : 0; };
  const auto silu = [](double z) { return z / (1 + std::exp(-z)); };
  const auto with = [](Activation kind) { return ActivationSpec{kind}; };
  return {
      {{"none", {2, 5, 5, 8}, {16, 1, 1, 8}}, {2, 5, 5, 16}},
      {{"none_no_bias", {1, 4, 5, 8}, {8, 3, 3, 8}, {.padding = 1}, same, false}, {1, 4, 5, 8}},
      {{"relu_16",
        {2, 6, 5, 8},
        {16, 3, 3, 8},
        {.stride = 2, .padding = 1, .activation = with(Activation::relu)},
        relu},
       {2, 3, 3, 16}},
      {{"relu_5_channels",
        {1, 5, 5, 3},
        {5, 3, 3, 3},
        {.padding = 1, .activation = with(Activation::relu)},
        relu,
        false},
       {1, 5, 5, 5}},
      {{"relu_same_stride_2",
        {1, 6, 7, 8},
        {8, 3, 3, 8},
        {.stride = 2, .padding_mode = PaddingMode::same, .activation = with(Activation::relu)},
        relu,
        true,
        {0, 1, 1, 1}},
       {1, 3, 4, 8}},
      {{"relu_groups_2",
        {2, 5, 5, 16},
        {16, 3, 3, 8},
        {.padding = 1, .groups = 2, .activation = with(Activation::relu)},
        relu},
       {2, 5, 5, 16}},
      {{"silu_depthwise",
        {1, 5, 4, 8},
        {8, 3, 3, 1},
        {.padding = 1, .groups = 8, .activation = with(Activation::silu)},
        silu},
       {1, 5, 4, 8}},
      {{"relu_first_layer",
        {1, 6, 6, 3},
        {32, 3, 3, 3},
        {.padding = 1, .activation = with(Activation::relu)},
        relu},
       {1, 6, 6, 32}},
      {{"tanh", {1, 5, 5, 2}, {3, 3, 3, 2}, {.activation = with(Activation::tanh)}, std::tanh},
       {1, 3, 3, 3}},
  };
}

// With gradients, which takes operators of its own, and without.
void add_residual_rows(std::vector<OpCase>& rows) {
  for (const ResidualCase& r : residual_cases()) {
    const ConvCase& s = r.conv;
    for (const bool trained : {true, false}) {
      rows.push_back(
          {.name = fmt::format("conv2d_residual_{}{}", s.name, trained ? "" : "_off_tape"),
           .inputs = {variable(s.x), variable(s.filter, -0.7, 0.7), variable({s.filter[0]}),
                      variable(r.y)},
           .op =
               [s](Inputs x) {
                 return conv2d(x[0], x[1], s.bias ? x[2] : Tensor(), s.options, x[3]);
               },
           .expected =
               [s](Plain x) {
                 ConvCase sum = s;
                 sum.plain = [](double z) { return z; };
                 Values y = plain_conv2d(sum, x[0], x[1], s.bias ? x[2] : Values());
                 for (size_t i = 0; i < y.size(); ++i) y[i] = s.plain(y[i] + x[3][i]);
                 return y;
               },
           .twice = trained ? Twice::refused : Twice::not_at_all,
           .terms = s.x[0] * s.x[1] * s.x[2] + s.filter[1] * s.filter[2] * (s.x[3] + s.filter[0]),
           .scale = 1});
      if (!s.bias) rows.back().inputs[2] = constant({s.filter[0]});
    }
  }
}

}  // namespace

std::vector<OpCase> conv2d_rows() {
  std::vector<OpCase> rows;
  for (const ConvCase& s : cases()) {
    std::vector<Input> inputs{variable(s.x), variable(s.filter, -0.7, 0.7)};
    if (s.bias) inputs.push_back(variable({s.filter[0]}));
    const int64_t terms =
        s.x[0] * s.x[1] * s.x[2] + s.filter[1] * s.filter[2] * (s.x[3] + s.filter[0]);
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
    if (!std::string_view(s.name).ends_with("no_bias")) continue;
    rows.push_back(rows.back());
    rows.back().name = s.options.groups > 1 ? "conv2d_with_sums_depthwise" : "conv2d_with_sums";
    rows.back().op = [s](Inputs x) { return conv2d_with_sums(x[0], x[1], s.options).y; };
  }
  add_residual_rows(rows);
  return rows;
}

}  // namespace whisker::test
