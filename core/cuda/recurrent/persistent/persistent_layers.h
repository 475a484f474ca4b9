// Recurrent layers by Whisker's persistent kernels, with gemms over all steps before and after
// them. Lengths are read on the device only.
#pragma once

#include "core/backend/recurrent.h"
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"
#include "core/cuda/recurrent/recurrent_memory.h"
#include "core/nvidia/cuda_library.h"

#include <vector>

namespace whisker::cuda {

class PersistentLayers final : public RecurrentKernels {
 public:
  /// f32 is supported only where `options` allow to round to tf32.
  PersistentLayers(Context& context, Allocator& allocator, GemmAlgorithms& gemms,
                   const CudaOptions& options)
      : context_(context), allocator_(allocator), gemms_(gemms), options_(options) {}

  /// Whether kernels fit `g` on this GPU.
  bool fits(const RecurrentGeometry& g) const { return tiling(g).has_value(); }

  /// For a `g` that fits. Nothing waits for the device; backward does not change the reserve.
  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;

 private:
  struct Launch;
  bool tf32() const { return options_.tf32 && !options_.deterministic; }
  std::optional<PersistentTiling> tiling(const RecurrentGeometry& g) const;
  std::vector<Launch> launches(const RecurrentGeometry& g) const;
  PersistentLaunch prepared(const RecurrentGeometry& g, const PersistentTiling& tiling,
                            const Tensor& lengths, RecurrentMemory& memory) const;
  const void* dropped(const RecurrentGeometry& g, const RecurrentInputs& in, int64_t layer,
                      const void* y, RecurrentMemory& memory) const;
  std::vector<PersistentCell> cells_of(const RecurrentGeometry& g, const Launch& launch,
                                       const RecurrentInputs& in, const RecurrentOutputs& out,
                                       RecurrentMemory& memory) const;
  // persistent_gemms.cpp:
  /// gx (steps, batch, gates hidden) = input W_ih^T + b_ih of a cell of `layer`; b_ih may be null.
  void gate_inputs(const RecurrentGeometry& g, int64_t layer, const void* input, const void* w_ih,
                   const void* b_ih, void* gx);
  /// Computes the defined tensors of `wanted` from the gradients of `cell`, whose layer read
  /// `input`.
  void parameter_gradients(const RecurrentGeometry& g, int64_t layer, const PersistentCell& cell,
                           const void* input, const RecurrentParameters& wanted);
  void recurrent_weights(const RecurrentGeometry& g, const PersistentCell& cell, void* dw);

  Context& context_;
  Allocator& allocator_;
  GemmAlgorithms& gemms_;
  const CudaOptions& options_;
};

}  // namespace whisker::cuda
