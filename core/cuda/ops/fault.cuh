// Reports faults from kernels: see core/cuda/runtime/fault.h.
#pragma once

#include "core/cuda/runtime/fault.h"

namespace whisker::cuda {

/// True when 0 <= value < extent; else reports a fault.
__device__ inline bool in_range(int64_t value, int64_t extent, Fault* faults, FaultSource source,
                                int64_t row = 0) {
  if (value >= 0 && value < extent) return true;
  volatile Fault& fault = faults[static_cast<int>(source)];
  fault.value = value;
  fault.row = row;
  fault.extent = extent;
  __threadfence_system();
  fault.set = 1;
  return false;
}

}  // namespace whisker::cuda
