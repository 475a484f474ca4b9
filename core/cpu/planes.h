// Activations as pooling and normalisation see them: `outer` planes of height x width places, each
// `inner` channels wide. Row-major NHWC is (N, H, W, C); the blocked form of oneDNN is
// (N C/16, H, W, 16). One loop serves both: channels lie side by side either way.
#pragma once

#include <cstdint>

namespace whisker::cpu {

struct Planes {
  int64_t n = 0;         ///< pictures
  int64_t blocks = 1;    ///< channel blocks of one picture; outer = n blocks
  int64_t inner = 0;     ///< channels of one block
  int64_t channels = 0;  ///< real ones: the last block may be padded

  int64_t outer() const { return n * blocks; }
};

}  // namespace whisker::cpu
