// The keys of the autotune table.
#include "core/cpu/onednn/dnnl_convolution.h"
#include "core/error.h"
#include "core/tensor/dtype.h"

namespace whisker::cpu {
namespace {

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

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::plain:
      return "plain";
    case Layout::blocked:
      return "blocked";
    case Layout::planar:
      break;
  }
  return "planar";
}

}  // namespace

std::string ConvolutionRequest::describe() const {
  const Conv2dGeometry& g = geometry;
  std::string text = fmt::format(
      "{} x({},{},{},{}) {} w({},{},{},{}) y({},{}) {} stride {},{} padding {},{},{},{}",
      name_of(pass), g.n, g.h, g.w, g.c, name_of(x), g.c_out, g.kernel_h, g.kernel_w,
      g.groups > 0 ? g.c / g.groups : 0, g.h_out, g.w_out, name_of(y), g.stride_h, g.stride_w,
      g.pad_top, g.pad_left, g.pad_bottom, g.pad_right);
  if (g.dilation_h != 1 || g.dilation_w != 1) {
    text += fmt::format(" dilation {},{}", g.dilation_h, g.dilation_w);
  }
  if (g.groups != 1) text += fmt::format(" groups {}", g.groups);
  if (bias) text += " bias";
  if (g.bias) text += " geometry_bias";
  if (g.activation.kind != Activation::none || g.activation.slope != ActivationSpec{}.slope) {
    text += fmt::format(" {} {}", whisker::name_of(g.activation.kind), g.activation.slope);
  }
  if (g.dtype != DType::f32) text += fmt::format(" {}", g.dtype);
  if (constant_weights) text += " constant_weights";
  return text;
}

}  // namespace whisker::cpu
