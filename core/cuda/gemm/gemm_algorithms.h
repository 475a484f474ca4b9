// Chooses among cuBLASLt's algorithms: untimed its heuristic's first, by timing the fastest of the
// first sixteen. What cuBLASLt does not support is computed without its epilogue, which follows in
// a kernel of its own, or by the direct kernel. See Note [Choosing an algorithm] in
// core/backend/autotuner.h.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/autotune/timed_algorithms.h"
#include "core/cuda/gemm/cublaslt_gemm.h"

namespace whisker::cuda {

class GemmAlgorithms final : public TimedAlgorithms<GemmRequest, GemmOperands> {
 public:
  using TimedAlgorithms::TimedAlgorithms;

  /// Fills in the request's alignments.
  void run(GemmRequest request, const GemmOperands& operands);
  /// The request's epilogue by a kernel of its own, around the gemm without it.
  void run_unfused(const GemmRequest& request, const GemmOperands& operands);
  /// y (rows, out) = f(a (rows, in) b (out, in)^T + bias (out) or null), with bias and activation
  /// in cuBLASLt's epilogue where it has one; operands may be rounded to tf32 where `tf32`.
  void linear(const LinearGeometry& g, bool tf32, const GemmOperands& operands);

 private:
  Pointer named(const GemmRequest& request, const GemmOperands& operands,
                const std::string& name) override;
  Choice untimed(const GemmRequest& request, const GemmOperands& operands) override;
  void propose(const GemmRequest& request, const GemmOperands& operands, const Pointer& present,
               const Search& search) override;

  std::shared_ptr<CublasLtGemm> cublas_lt_gemm(const GemmRequest& request) const {
    return std::make_shared<CublasLtGemm>(context_.cublas_lt(), request);
  }
};

}  // namespace whisker::cuda
