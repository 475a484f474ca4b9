// A GPU, and the base of its kernel families with the functions that make them. A family's class
// stands beside its kernels; it takes tensors and launches. This header is light, as .cu files are
// compiled three times.
#pragma once

#include "core/backend/autotune_table.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/memory/upload.h"
#include "core/cuda/runtime/context.h"
#include "core/cuda/runtime/search_budget.h"
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

class ConvAlgorithms;
class GemmAlgorithms;

/// A GPU's memory, streams, options and timed choices. It outlives the calls of its families. Its
/// constructor, which makes the classes that choose, is in core/cuda/backend/cuda_backend.cpp.
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
  SearchBudget budget;
  AutotuneTable table;
  std::unique_ptr<GemmAlgorithms> gemms;
  std::unique_ptr<ConvAlgorithms> convolutions;
};

/// The base of a kernel family: what its methods use of the device.
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
std::shared_ptr<FusedAddNorms> make_fused_add_norms(CudaDevice& device);
std::shared_ptr<FusedNormPool> make_fused_norm_pool(CudaDevice& device);

}  // namespace whisker::cuda
