// Which algorithm computes a convolution, decided once per request and kept with its compiled form.
#pragma once

#include "core/cpu/allocator.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/dnnl_api.h"

#include <unordered_map>

namespace whisker::cpu {

struct RequestHash {
  size_t operator()(const ConvolutionRequest& request) const;
};

/// Compiled convolutions by request. Used by the one thread that computes.
class Conv2dPlans {
 public:
  /// Computes `request` (its algorithm is chosen here) on the operands; false when oneDNN has
  /// nothing for it. The first call for a request times the candidates on the operands themselves.
  bool run(Allocator& allocator, const CpuOptions& options, ConvolutionRequest request,
           const ConvolutionOperands& operands);
  /// True once a call has found that oneDNN has nothing for `request`.
  bool hopeless(const ConvolutionRequest& request) const;
  /// Forgets every choice: after a change of options.
  void clear() { plans_.clear(); }

 private:
  using Plan = std::unique_ptr<DnnlConvolution>;  // null: nothing there
  static Plan choose(Allocator& allocator, const CpuOptions& options, ConvolutionRequest request,
                     const ConvolutionOperands& operands);

  std::unordered_map<ConvolutionRequest, Plan, RequestHash> plans_;
};

}  // namespace whisker::cpu
