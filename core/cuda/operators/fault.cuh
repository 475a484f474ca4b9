// Kernels' side of core/cuda/gpu/fault.h.
#pragma once

#include "core/cuda/gpu/fault.h"

namespace whisker::cuda {

/// True when 0 <= value < extent; else leaves a note.
__device__ inline bool in_range(int64_t value, int64_t extent, Fault* faults, FaultPlace place,
                                int64_t row = 0) {
  if (value >= 0 && value < extent) return true;
  volatile Fault& fault = faults[static_cast<int>(place)];
  fault.value = value;
  fault.row = row;
  fault.extent = extent;
  __threadfence_system();
  fault.set = 1;
  return false;
}

}  // namespace whisker::cuda
