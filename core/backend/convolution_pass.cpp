#include "core/backend/convolution_pass.h"

#include <fmt/format.h>

namespace whisker {

std::string_view name_of(ConvolutionPass pass) {
  constexpr std::string_view names[] = {"forward", "backward_input", "backward_weights"};
  return names[static_cast<size_t>(pass)];
}

std::string text_of(const Conv2dGeometry& g, std::string_view x_layout, std::string_view y_layout) {
  std::string text = fmt::format(
      "x({},{},{},{}){} w({},{},{},{}) y({},{}){} stride {},{} padding {},{},{},{}", g.n, g.h, g.w,
      g.c, x_layout, g.c_out, g.kernel_h, g.kernel_w, g.groups > 0 ? g.c / g.groups : 0, g.h_out,
      g.w_out, y_layout, g.stride_h, g.stride_w, g.pad_top, g.pad_left, g.pad_bottom, g.pad_right);
  if (g.dilation_h != 1 || g.dilation_w != 1) {
    text += fmt::format(" dilation {},{}", g.dilation_h, g.dilation_w);
  }
  if (g.groups != 1) text += fmt::format(" groups {}", g.groups);
  if (g.bias) text += " bias";
  const ActivationSpec& f = g.activation;
  if (f.kind != Activation::none || f.slope != ActivationSpec{}.slope) {
    text += fmt::format(" {} {}", name_of(f.kind), f.slope);
  }
  return text;
}

}  // namespace whisker
