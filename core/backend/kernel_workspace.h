// What kernels say of the memory that they work in.
#pragma once

#include <cstdint>

namespace whisker {

/// Bytes that kernels work in besides operands and results.
struct KernelWorkspace {
  int64_t forward = 0, backward = 0;
};

}  // namespace whisker
