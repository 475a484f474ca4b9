// Convolutions that tests run, one table for all programs: small ones against plain loops on every
// device (ops/op_table/conv2d_rows.cpp) and for cuDNN's engines, larger ones on the CPU and the GPU
// against the reference (ops/op_table/large_test.cpp) and by each algorithm of the GPU (cuda).
#pragma once

#include "core/ops/ops.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace whisker::test {

inline constexpr ActivationSpec relu_spec{.kind = Activation::relu};
inline constexpr ActivationSpec tanh_spec{.kind = Activation::tanh};
inline constexpr ActivationSpec silu_spec{.kind = Activation::silu};
inline constexpr ActivationSpec leaky_relu_spec{.kind = Activation::leaky_relu};

struct ConvolutionCase {
  Shape x, w;
  Conv2dOptions options = {};
};

inline int64_t longest_sum(const ConvolutionCase& c) {
  return c.x[0] * c.x[1] * c.x[2] + c.w.count();
}

/// Extents of the zeros around an image.
struct Edges {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
};

/// A convolution of few elements. Its name ends with "no_bias" where it has none.
struct SmallConvolution {
  const char* name;
  Shape x, w;
  Conv2dOptions options = {};
  Edges same = {};  ///< padding of PaddingMode::same, counted by hand

  bool has_bias() const { return !std::string_view(name).ends_with("no_bias"); }
};

inline std::vector<SmallConvolution> small_convolutions() {
  constexpr PaddingMode same = PaddingMode::same;
  const Pool2dOptions overlapping{.kernel = 3, .stride = Pair(2), .padding = 1};
  return {
      {"1x1", {2, 5, 5, 3}, {4, 1, 1, 3}},
      {"one_element", {1, 1, 1, 1}, {1, 1, 1, 1}},
      {"3x3_valid", {2, 5, 5, 2}, {3, 3, 3, 2}, {.padding_mode = PaddingMode::valid}},
      {"3x3_pad_1", {2, 6, 4, 3}, {5, 3, 3, 3}, {.padding = 1}},
      {"stem_of_16", {2, 9, 21, 3}, {16, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {"stem_of_24", {1, 5, 40, 3}, {24, 3, 3, 3}, {.padding = 1}},
      {"no_bias", {1, 5, 5, 2}, {2, 3, 3, 2}, {.padding = 1}},
      {"stride_2", {1, 7, 6, 2}, {3, 3, 3, 2}, {.stride = 2}},
      {"stride_2x3_pad_2x1_kernel_5x2",
       {1, 7, 9, 2},
       {2, 5, 2, 2},
       {.stride = {2, 3}, .padding = {2, 1}}},
      {"same_even_kernel", {1, 5, 6, 2}, {2, 2, 4, 2}, {.padding_mode = same}, {0, 1, 1, 2}},
      {"same_stride_2",
       {1, 6, 7, 2},
       {3, 3, 3, 2},
       {.stride = 2, .padding_mode = same},
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
       {.stride = 2, .padding = 2, .groups = 16}},
      {"depthwise_8_kernel_5_relu",
       {1, 4, 6, 8},
       {8, 5, 5, 1},
       {.padding = 2, .groups = 8, .activation = relu_spec}},
      {"depthwise_8_kernel_7_same_stride_2",
       {1, 6, 5, 8},
       {8, 7, 7, 1},
       {.stride = 2, .padding_mode = same, .groups = 8},
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
      {"relu", {1, 5, 5, 3}, {8, 3, 3, 3}, {.padding = 1, .activation = relu_spec}},
      {"tanh", {1, 5, 5, 2}, {3, 3, 3, 2}, {.activation = tanh_spec}},
      {"silu", {1, 5, 5, 2}, {3, 3, 3, 2}, {.activation = silu_spec}},
      {"max_pool2d_2_relu",
       {2, 6, 7, 3},
       {4, 3, 3, 3},
       {.activation = relu_spec, .max_pool = Pool2dOptions{}}},
      {"max_pool2d_3_stride_2_pad_1_tanh",
       {1, 6, 5, 2},
       {3, 3, 3, 2},
       {.padding = 1, .activation = tanh_spec, .max_pool = overlapping}},
      {"max_pool2d_2x1_linear_17_channels_no_bias",
       {1, 3, 3, 2},
       {17, 2, 3, 2},
       {.max_pool = Pool2dOptions{.kernel = {2, 1}}}},
      {"16_to_17_channels", {1, 3, 3, 16}, {17, 3, 3, 16}},
  };
}

/// Convolutions to whose result another tensor is added before the activation.
inline std::vector<SmallConvolution> small_residual_convolutions() {
  constexpr PaddingMode same = PaddingMode::same;
  return {
      {"none", {2, 5, 5, 8}, {16, 1, 1, 8}},
      {"none_no_bias", {1, 4, 5, 8}, {8, 3, 3, 8}, {.padding = 1}},
      {"relu_16",
       {2, 6, 5, 8},
       {16, 3, 3, 8},
       {.stride = 2, .padding = 1, .activation = relu_spec}},
      {"relu_5_channels_no_bias",
       {1, 5, 5, 3},
       {5, 3, 3, 3},
       {.padding = 1, .activation = relu_spec}},
      {"relu_same_stride_2",
       {1, 6, 7, 8},
       {8, 3, 3, 8},
       {.stride = 2, .padding_mode = same, .activation = relu_spec},
       {0, 1, 1, 1}},
      {"relu_groups_2",
       {2, 5, 5, 16},
       {16, 3, 3, 8},
       {.padding = 1, .groups = 2, .activation = relu_spec}},
      {"silu_depthwise",
       {1, 5, 4, 8},
       {8, 3, 3, 1},
       {.padding = 1, .groups = 8, .activation = silu_spec}},
      {"relu_first_layer", {1, 6, 6, 3}, {32, 3, 3, 3}, {.padding = 1, .activation = relu_spec}},
      {"tanh", {1, 5, 5, 2}, {3, 3, 3, 2}, {.activation = tanh_spec}},
  };
}

/// Convolutions with more padding after than before.
inline std::vector<ConvolutionCase> uneven_convolutions() {
  constexpr PaddingMode same = PaddingMode::same;
  return {
      {{2, 11, 12, 24}, {16, 2, 2, 24}, {.padding_mode = same}},
      {{2, 12, 12, 24}, {16, 3, 3, 24}, {.stride = 2, .padding_mode = same}},
      {{5, 27, 26, 16}, {24, 4, 4, 16}, {.padding_mode = same}},
      {{2, 24, 24, 3}, {64, 7, 7, 3}, {.stride = 2, .padding_mode = same}},
      {{2, 33, 32, 3}, {32, 3, 3, 3}, {.stride = 2, .padding_mode = same, .activation = relu_spec}},
  };
}

/// Convolutions that every algorithm of a device computes: first layers, planar and blocked images,
/// 1x1, strides, dilation, groups, maps smaller than a tile, uneven padding.
inline std::vector<ConvolutionCase> convolutions() {
  std::vector<ConvolutionCase> cases{
      {{2, 66, 66, 3}, {32, 3, 3, 3}, {.activation = relu_spec}},  // first layers
      {{3, 17, 19, 3}, {32, 3, 3, 3}, {.activation = relu_spec}},
      {{2, 64, 63, 3}, {32, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 31, 34, 1}, {32, 3, 3, 1}, {.padding = 1, .activation = relu_spec}},
      {{2, 21, 150, 3}, {64, 3, 3, 3}, {.padding = 1, .activation = relu_spec}},
      {{2, 40, 40, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}},
      {{2, 40, 40, 4}, {64, 7, 7, 4}, {.stride = 2, .padding = 3}},
      {{2, 15, 14, 32}, {64, 3, 3, 32}, {.activation = relu_spec}},
      {{3, 31, 30, 32}, {32, 3, 3, 32}, {.activation = relu_spec}},
      {{2, 13, 70, 32}, {32, 3, 3, 32}, {.padding = 1}},
      {{2, 9, 21, 32}, {32, 3, 3, 32}, {.padding = {2, 0}, .activation = relu_spec}},
      {{2, 11, 6, 32}, {64, 3, 3, 32}, {.padding = {0, 1}}},
      {{2, 5, 18, 32}, {64, 3, 3, 32}, {.padding = 2}},
      {{2, 5, 7, 32}, {32, 3, 3, 32}, {.padding = 3}},
      {{2, 14, 14, 64}, {64, 3, 3, 64}, {.padding = 1}},
      {{2, 15, 14, 16}, {48, 3, 3, 16}, {.stride = 2, .padding = 1}},
      {{2, 13, 13, 64}, {32, 1, 1, 64}, {.activation = relu_spec}},
      {{2, 13, 13, 32}, {64, 1, 1, 32}, {.stride = 2}},
      {{2, 12, 12, 8}, {16, 3, 3, 4}, {.padding = 2, .dilation = 2, .groups = 2}},
      {{2, 12, 12, 32}, {32, 3, 3, 1}, {.padding = 1, .groups = 32}},
      {{2, 9, 9, 16}, {16, 3, 3, 16}, {.padding = 1, .activation = tanh_spec}},
      {{2, 9, 9, 16}, {16, 3, 3, 16}, {.activation = leaky_relu_spec}},
  };
  for (ConvolutionCase& uneven : uneven_convolutions()) cases.push_back(std::move(uneven));
  return cases;
}

/// A depthwise convolution of x.
inline ConvolutionCase depthwise(const Shape& x, int64_t window, Conv2dOptions options) {
  options.groups = x[3];
  return {x, {x[3], window, window, 1}, options};
}

/// Convolutions that devices compute by what they choose first: padded channels, what oneDNN has
/// nothing for, rows enough for a bias gradient in several turns, and depthwise ones.
inline std::vector<ConvolutionCase> further_convolutions() {
  constexpr PaddingMode same = PaddingMode::same;
  return {
      {{2, 15, 14, 32}, {32, 3, 3, 32}, {.padding = 1, .activation = relu_spec}},
      {{2, 28, 28, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}},
      {{2, 12, 12, 10}, {6, 3, 5, 10}, {.padding = {1, 2}, .activation = leaky_relu_spec}},
      {{3, 11, 12, 20}, {24, 3, 3, 20}, {.padding_mode = same, .activation = relu_spec}},
      {{1, 5, 5, 1}, {1, 3, 3, 1}},
      {{8, 60, 60, 8}, {96, 1, 1, 8}},
      depthwise({2, 15, 13, 40}, 3, {.stride = 2, .padding = 1}),
      depthwise({2, 14, 15, 144}, 5, {.padding = 2}),
      depthwise({3, 15, 14, 24}, 5, {.stride = 2, .padding = 2}),
      depthwise({2, 13, 14, 96}, 7, {.padding = 3}),
      depthwise({2, 13, 14, 8}, 7, {.stride = 2, .padding = 3}),
      // Small maps, odd widths, several chunks of channels; more positions than blocks take at
      // once.
      depthwise({5, 7, 7, 72}, 7, {.padding = 3}),
      depthwise({2, 30, 29, 200}, 3, {.padding = 1}),
      depthwise({2, 29, 33, 136}, 3, {.stride = 2, .padding = 1}),
      depthwise({2, 9, 57, 16}, 5, {.padding = {0, 2}}),
      depthwise({40, 2, 4, 2048}, 7, {.padding = 3}),
      depthwise({5, 7, 7, 1152}, 5, {.padding = 2}),
      depthwise({3, 14, 14, 72}, 5, {.padding = 2}),
      depthwise({3, 6, 131, 32}, 3, {.stride = 2, .padding = 1}),
      depthwise({3, 13, 20, 48}, 7, {.stride = 2, .padding_mode = same}),
      depthwise({2, 18, 20, 64}, 3, {.stride = 2, .padding_mode = same, .activation = tanh_spec}),
      depthwise({2, 14, 14, 16}, 5, {.stride = 2, .padding_mode = same, .activation = tanh_spec}),
  };
}

}  // namespace whisker::test
