// The family of norms on a GPU. Each method stands beside its kernels, in the .cu of its norm.
#pragma once

#include "core/backend/normalization.h"
#include "core/cuda/memory/cuda_device.h"

namespace whisker::cuda {

class Normalization final : public NormalizationKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  bool adds_unsummed_grads() const override { return true; }
  bool scales_grads(const BatchNormGeometry& g) const override { return g.rows <= INT32_MAX; }
  void batch_norm_train(const BatchNormGeometry& g, const NormInputs& in, const NormOutputs& out,
                        const RunningStatistics& running) override;
  void batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                            const KnownStatistics& statistics, const Tensor& y) override;
  void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                           const UnsummedGrads& dy, const NormGrads& out) override;
  void layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override;
  void layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override;
  void group_norm(const GroupNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override;
  void group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override;
};

}  // namespace whisker::cuda
