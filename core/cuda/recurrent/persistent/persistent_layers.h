// Recurrent layers by Whisker's persistent kernels, with gemms over all steps before and after
// them. Lengths are read on the device only.
#pragma once

#include "core/backend/recurrent.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"

#include <optional>

namespace whisker::cuda {

/// f32 is supported only where options allow to round to tf32.
class PersistentLayers final : public RecurrentKernels, CudaKernels {
 public:
  explicit PersistentLayers(CudaDevice& device) : CudaKernels(device) {}

  /// Whether kernels fit `g` on this GPU.
  bool fits(const RecurrentGeometry& g) const { return tiling(g).has_value(); }

  /// `g` fits. Nothing waits for the device; backward does not change the reserve.
  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;

 private:
  std::optional<PersistentTiling> tiling(const RecurrentGeometry& g) const;
};

}  // namespace whisker::cuda
