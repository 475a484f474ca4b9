// One way to compute a request, and the GPU that it runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// Stream and GPU of an algorithm's run.
struct KernelSite {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  int capability = 0;                       ///< as Context::capability
  size_t shared_bytes = 48 * 1024;          ///< of shared memory that a block may ask for
  size_t multiprocessor_bytes = 64 * 1024;  ///< of shared memory of a multiprocessor
};

template <class Operands>
class Algorithm {
 public:
  virtual ~Algorithm() = default;
  /// Its name in the autotune table.
  virtual std::string name() const = 0;
  virtual int64_t workspace_bytes() const { return 0; }
  /// Enqueues the work; `workspace` has workspace_bytes().
  virtual void run(const KernelSite& site, const Operands& operands, void* workspace) const = 0;
};

}  // namespace whisker::cuda
