// The base of a GPU's kernel families, and the functions that make them. A family's class stands
// beside its kernels; it takes tensors and launches. This header is light, as .cu files are
// compiled three times: who uses the timed choices includes core/cuda/backend/algorithm_choices.h.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/cuda/memory/upload.h"
#include "core/cuda/runtime/context.h"
#include "core/nvidia/cuda_library.h"

#include <memory>

namespace whisker {

class AttentionKernels;
class ConvPoolKernels;
class ConvolutionKernels;
class ElementwiseKernels;
class FusedAddNorms;
class FusedConvNorm;
class FusedNormPool;
class GemmKernels;
class LossKernels;
class NormalizationKernels;
class PoolingKernels;
class RecurrentKernels;
class ReductionKernels;
class ShapeIndexKernels;
class TrainingStepKernels;

}  // namespace whisker

namespace whisker::cuda {

class AlgorithmChoices;

/// A GPU's memory, streams and options. It outlives the calls of its families.
struct CudaDevice {
  explicit CudaDevice(int index);
  ~CudaDevice();

  /// The compute stream, after making this the thread's device.
  cudaStream_t stream() const {
    context.enter();
    return context.stream();
  }

  Context context;
  Allocator allocator;
  Uploader staging;
  CudaOptions options;
  std::unique_ptr<AlgorithmChoices> algorithms;
};

class CudaKernels {
 public:
  explicit CudaKernels(CudaDevice& device) : device_(device) {}

 protected:
  cudaStream_t stream() const { return device_.stream(); }
  bool tf32() const { return options_.tf32 && !options_.deterministic; }

  CudaDevice& device_;
  Context& context_ = device_.context;
  Allocator& allocator_ = device_.allocator;
  const CudaOptions& options_ = device_.options;
  AlgorithmChoices& algorithms_ = *device_.algorithms;
};

std::shared_ptr<ElementwiseKernels> make_elementwise(CudaDevice& device);
std::shared_ptr<ShapeIndexKernels> make_shape_index(CudaDevice& device);
std::shared_ptr<ReductionKernels> make_reduction(CudaDevice& device);
std::shared_ptr<GemmKernels> make_gemm(CudaDevice& device);
std::shared_ptr<ConvolutionKernels> make_convolution(CudaDevice& device);
std::shared_ptr<PoolingKernels> make_pooling(CudaDevice& device);
std::shared_ptr<NormalizationKernels> make_normalization(CudaDevice& device);
std::shared_ptr<RecurrentKernels> make_recurrent(CudaDevice& device);
std::shared_ptr<LossKernels> make_losses(CudaDevice& device);
std::shared_ptr<TrainingStepKernels> make_training_step(CudaDevice& device);
std::shared_ptr<AttentionKernels> make_attention(CudaDevice& device);
std::shared_ptr<ConvPoolKernels> make_conv_pool(CudaDevice& device);
std::shared_ptr<FusedConvNorm> make_fused_conv_norm(CudaDevice& device);
std::shared_ptr<FusedConvNorm> make_fused_conv_norm(CudaDevice& device);
std::shared_ptr<FusedAddNorms> make_fused_add_norms(CudaDevice& device);
std::shared_ptr<FusedNormPool> make_fused_norm_pool(CudaDevice& device);

}  // namespace whisker::cuda
