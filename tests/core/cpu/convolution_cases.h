// Convolutions that reach every way of computing one: planar and blocked pictures, padded channels,
// 1x1, strides, dilation, groups, depthwise, and what oneDNN has nothing for.
#pragma once

#include "core/ops.h"

#include <vector>

namespace whisker::test {

struct ConvolutionCase {
  Shape x, w;
  Conv2dOptions options;
};

inline std::vector<ConvolutionCase> convolution_cases() {
  const ActivationSpec relu_spec{.kind = Activation::relu};
  return {
      {{3, 17, 19, 3}, {32, 3, 3, 3}, {.activation = relu_spec}},
      {{2, 15, 14, 32}, {32, 3, 3, 32}, {.padding = 1, .activation = relu_spec}},
      {{2, 15, 14, 16}, {48, 3, 3, 16}, {.stride = 2, .padding = 1}},
      {{2, 28, 28, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}},
      {{2, 13, 13, 64}, {32, 1, 1, 64}, {.activation = relu_spec}},
      {{2, 13, 13, 32}, {64, 1, 1, 32}, {.stride = 2}},
      {{2, 12, 12, 10},
       {6, 3, 5, 10},
       {.padding = {1, 2}, .activation = {.kind = Activation::leaky_relu}}},
      {{2, 12, 12, 8}, {16, 3, 3, 4}, {.padding = 2, .dilation = 2, .groups = 2}},
      {{2, 12, 12, 32}, {32, 3, 3, 1}, {.padding = 1, .groups = 32}},
      {{3, 11, 12, 20},
       {24, 3, 3, 20},
       {.padding_mode = PaddingMode::same, .activation = relu_spec}},
      {{2, 9, 9, 16}, {16, 3, 3, 16}, {.padding = 1, .activation = {.kind = Activation::tanh}}},
      {{1, 5, 5, 1}, {1, 3, 3, 1}, {}},
  };
}

}  // namespace whisker::test
