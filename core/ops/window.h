// Where the windows of a convolution or pooling lie along one axis; shared by both.
#pragma once

#include "core/ops/ops.h"

#include <cstdint>
#include <string>

namespace whisker {

/// One axis of a windowed operator. All parts but `extent` are checked to fit 32 bits.
struct WindowAxis {
  int64_t extent = 0, kernel = 1, stride = 1, padding = 0, dilation = 1;
  PaddingMode mode = PaddingMode::number;
  bool ceil = false;  ///< a last window may hang over the end, if it starts before it
};
struct WindowPlaces {
  int64_t before = 0, after = 0;  ///< how far windows reach beyond the axis on both sides
  int64_t after_padding = 0;      ///< of `after`, what is padding and not rounding up
  int64_t count = 0;              ///< of windows
};
/// Throws usage, naming `op` and `axis`, when no window fits.
WindowPlaces place_windows(const char* op, const char* axis, const WindowAxis& a);

/// A fused activation's text for describe_op(): "relu", or "leaky_relu, slope 0.2".
std::string attributes_of(const ActivationSpec& f);
/// "kernel 3 3, stride 2 2, padding 1 1, dilation 1 1, groups 1, relu".
std::string attributes_of(const Conv2dGeometry& g);
std::string attributes_of(const Pool2dGeometry& g);

}  // namespace whisker
