// Recurrent layers by Whisker's persistent kernels, with gemms over all steps before and after
// them. Lengths are read on the device only.
#pragma once

#include "core/backend/recurrent.h"
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"
#include "core/nvidia/cuda_library.h"

#include <optional>

namespace whisker::cuda {

class PersistentLayers final : public RecurrentKernels {
 public:
  /// f32 is supported only where `options` allow to round to tf32.
  PersistentLayers(Context& context, Allocator& allocator, GemmAlgorithms& gemms,
                   const CudaOptions& options)
      : context_(context), allocator_(allocator), gemms_(gemms), options_(options) {}

  /// Whether kernels fit `g` on this GPU.
  bool fits(const RecurrentGeometry& g) const { return tiling(g).has_value(); }

  /// `g` fits. Nothing waits for the device; backward does not change the reserve.
  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;

 private:
  bool tf32() const { return options_.tf32 && !options_.deterministic; }
  std::optional<PersistentTiling> tiling(const RecurrentGeometry& g) const;

  Context& context_;
  Allocator& allocator_;
  GemmAlgorithms& gemms_;
  const CudaOptions& options_;
};

}  // namespace whisker::cuda
