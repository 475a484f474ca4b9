// Padding arithmetic of windowed operators.
#include "core/ops/window.h"

#include "core/ops/checks.h"

#include <algorithm>

namespace whisker {

WindowPlaces place_windows(const char* op, const char* axis, const WindowAxis& a) {
  if (a.extent > max_attribute || a.kernel > max_attribute) {
    fail(ErrorKind::usage, "{}: {} {} or kernel {} is above {}.", op, axis, a.extent, a.kernel,
         max_attribute);
  }
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  WindowPlaces places;
  if (a.mode == PaddingMode::same) {
    places.count = (a.extent + a.stride - 1) / a.stride;
    const int64_t total = std::max((places.count - 1) * a.stride + reach - a.extent, int64_t{0});
    places.before = total / 2;
    places.after = places.after_padding = total - places.before;
    return places;
  }
  if (a.mode == PaddingMode::number) {
    places.before = places.after = places.after_padding = a.padding;
  }
  const int64_t last_start = a.extent + places.before + places.after - reach;
  // Rounded up, a window that is larger than the axis by less than a stride is the only one.
  if (a.ceil ? last_start <= -a.stride : last_start < 0) {
    fail(ErrorKind::usage,
         "{}: a window of {} (kernel {}, dilation {}) does not fit the {} of {} with padding {}. "
         "Use a smaller kernel or padding: same.",
         op, reach, a.kernel, a.dilation, axis, a.extent, places.before);
  }
  places.count = last_start < 0 ? 0 : last_start / a.stride + 1;
  if (a.ceil && last_start % a.stride != 0 && places.count * a.stride < a.extent + places.before) {
    places.after = places.count * a.stride + reach - a.extent - places.before;
    ++places.count;
  }
  return places;
}

std::string attributes_of(const ActivationSpec& f) {
  if (f.kind != Activation::leaky_relu) return std::string(name_of(f.kind));
  return fmt::format("{}, slope {}", name_of(f.kind), f.slope);
}

std::string attributes_of(const Conv2dGeometry& g) {
  std::string text =
      fmt::format("kernel {} {}, stride {} {}, padding {} {}, dilation {} {}, groups {}",
                  g.kernel_h, g.kernel_w, g.stride_h, g.stride_w, g.pad_top, g.pad_left,
                  g.dilation_h, g.dilation_w, g.groups);
  if (g.activation.kind != Activation::none) {
    text += fmt::format(", {}", attributes_of(g.activation));
  }
  return text;
}

std::string attributes_of(const Pool2dGeometry& g) {
  return fmt::format("kernel {} {}, stride {} {}, padding {} {}", g.kernel_h, g.kernel_w,
                     g.stride_h, g.stride_w, g.pad_top, g.pad_left);
}

}  // namespace whisker
