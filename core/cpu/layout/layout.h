// Memory layouts of activations.
#pragma once

#include <cstdint>

namespace whisker::cpu {

enum class Layout : uint8_t {
  plain,    ///< (N, H, W, C), the only one outside the backend
  blocked,  ///< (N, C / block, H, W, block), padded with zero channels: oneDNN's nChw16c or nChw8c
  planar,   ///< (N, C, H, W): images of one or three channels
};

}  // namespace whisker::cpu
