// Chooses cuBLASLt's algorithm for a gemm: the autotune table's choice, or the heuristic's first;
// for a request that comes again while searching is allowed, the fastest of the first sixteen by
// timing. The direct kernel computes what cuBLASLt does not support. See Note [Choosing a
// convolution] in core/cuda/convolution/conv_algorithms.h.
#pragma once

#include "core/backend/autotuner.h"
#include "core/cuda/autotune/autotuned.h"
#include "core/cuda/gemm/cublaslt_gemm.h"

#include <unordered_map>

namespace whisker::cuda {

class GemmAlgorithms : Autotuned {
 public:
  using Autotuned::Autotuned;

  /// Computes `request` on the operands; fills in its alignments. False, having done nothing, when
  /// cuBLASLt does not support the epilogue: run without it, then apply it.
  bool run(GemmRequest request, const GemmOperands& operands);
  /// Forgets the compiled choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    std::unique_ptr<CublasLtGemm> gemm;
    std::optional<GemmAlgorithm> algorithm;  // nullopt: cuBLASLt has none
    bool settled = false;                    // nothing more is tried in this run
  };
  Choice decide(const GemmRequest& request, const GemmOperands& operands);
  /// Throws OutOfMemory when memory does not suffice to time the next candidate.
  void settle(const GemmRequest& request, const GemmOperands& operands, Choice& choice);

  std::unordered_map<GemmRequest, Choice, RequestHash> choices_;
};

}  // namespace whisker::cuda
