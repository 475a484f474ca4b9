// Activations for pooling and normalisation: `outer` planes of H x W positions, each `inner`
// channels wide. Row-major NHWC is (N, H, W, C); oneDNN's blocked layout is (N C/16, H, W, 16).
// Channels are adjacent in both, so one loop serves both.
#pragma once

#include <cstdint>

namespace whisker::cpu {

struct Planes {
  int64_t n = 0;         ///< images
  int64_t blocks = 1;    ///< channel blocks of one image; outer = n blocks
  int64_t inner = 0;     ///< channels of one block
  int64_t channels = 0;  ///< real ones: the last block may be padded

  int64_t outer() const { return n * blocks; }
};

}  // namespace whisker::cpu
