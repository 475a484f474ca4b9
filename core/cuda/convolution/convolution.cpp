// Requests as text and as hash.
#include "core/cuda/convolution/convolution.h"

#include "core/backend/autotuner.h"

#include <fmt/format.h>

namespace whisker::cuda {

std::string_view name_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return "forward";
    case ConvolutionPass::backward_input:
      return "backward_input";
    case ConvolutionPass::backward_weights:
      break;
  }
  return "backward_weights";
}

ConvolutionRequest ConvolutionRequest::plain() const {
  ConvolutionRequest request = *this;
  request.geometry.bias = false;
  request.geometry.activation = {};
  request.pooled = false;
  request.residual = false;
  return request;
}

std::string ConvolutionRequest::describe() const {
  const Conv2dGeometry& g = geometry;
  std::string text =
      fmt::format("{} {} x({},{},{},{}) w({},{},{},{}) y({},{}) stride {},{} padding {},{},{},{}",
                  name_of(pass), name_of(g.dtype), g.n, g.h, g.w, g.c, g.c_out, g.kernel_h,
                  g.kernel_w, g.groups > 0 ? g.c / g.groups : 0, g.h_out, g.w_out, g.stride_h,
                  g.stride_w, g.pad_top, g.pad_left, g.pad_bottom, g.pad_right);
  if (g.dilation_h != 1 || g.dilation_w != 1) {
    text += fmt::format(" dilation {},{}", g.dilation_h, g.dilation_w);
  }
  if (g.groups != 1) text += fmt::format(" groups {}", g.groups);
  if (g.bias) text += " bias";
  if (g.activation.kind != Activation::none || g.activation.slope != ActivationSpec{}.slope) {
    text += fmt::format(" {} {}", whisker::name_of(g.activation.kind), g.activation.slope);
  }
  if (pooled) text += " pooled";
  if (residual) text += " residual";
  if (normalised) text += " normalised";
  if (sums) text += " sums";
  if (tf32) text += " tf32";
  return text;
}

size_t ConvolutionRequest::hash() const {
  return WordHash().add(geometry).add(pass, pooled, residual, sums, normalised).value();
}

}  // namespace whisker::cuda
