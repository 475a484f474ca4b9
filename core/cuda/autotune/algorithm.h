// One way to compute a request.
#pragma once

#include "core/cuda/runtime/context.h"

#include <cstdint>
#include <string>

namespace whisker::cuda {

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
