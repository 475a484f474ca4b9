// The passes of a convolution, and the part of a request's text that all backends share.
#pragma once

#include "core/backend/geometry.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace whisker {

enum class ConvolutionPass : uint8_t { forward, backward_input, backward_weights };
std::string_view name_of(ConvolutionPass pass);

/// What identifies `g` but its dtype, in a key of the autotune table; the layouts' names, if any,
/// begin with a space.
std::string text_of(const Conv2dGeometry& g, std::string_view x_layout = "",
                    std::string_view y_layout = "");

}  // namespace whisker
