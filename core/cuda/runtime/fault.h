// Bad data found by a kernel. Kernels cannot throw, and the host does not wait for them: a kernel
// that reads a bad label or index skips it and records a fault in mapped host memory. The host's
// next wait throws it (Context::synchronize).
#pragma once

#include <cstdint>

namespace whisker::cuda {

enum class FaultSource : uint8_t { cross_entropy, gather, embedding, one_hot };
inline constexpr int fault_sources = 4;

/// One fault per source; of several bad values any may be recorded.
struct Fault {
  int64_t value = 0;   ///< the label or index
  int64_t row = 0;     ///< of a label
  int64_t extent = 0;  ///< it should have been in [0, extent)
  int32_t set = 0;
};

#ifdef __CUDACC__
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
#endif

}  // namespace whisker::cuda
