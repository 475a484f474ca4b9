// What the kernel families of the CPU have in common, and how each is made: its class stands in the
// .cpp of its topic. Copies, casts, comparisons and indexing take every dtype; elementwise kernels,
// pooling and batch normalisation f32 and bf16; the others f32, and bf16 through
// ViaF32 where the CPU does not compute in it.
#pragma once

#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/allocator.h"
#include "core/cpu/support/libraries.h"
#include "core/cpu/support/options.h"
#include "core/cpu/via_f32.h"
#include "core/tensor/tensor.h"

#include <memory>
#include <vector>

namespace whisker::cpu {

class Conv2dAlgorithms;
class GemmAlgorithms;
struct GemmRequest;

/// What the families work with. It outlives their calls.
struct CpuDevice {
  explicit CpuDevice(Backend& owner);
  ~CpuDevice();

  Backend& backend;
  Allocator allocator;
  CpuOptions options;
#if WHISKER_ONEDNN
  std::unique_ptr<Conv2dAlgorithms> conv2d_algorithms;
  std::unique_ptr<GemmAlgorithms> gemm_algorithms;
#endif
};

class CpuKernels {
 public:
  explicit CpuKernels(CpuDevice& device) : device_(device) {}

 protected:
  template <class T>
  Scratch<T> scratch(int64_t count) {
    return Scratch<T>(allocator_, count);
  }
#if WHISKER_ONEDNN
  /// True where the CPU has this product in bf16 and shall use that.
  bool native(const GemmRequest& request);
#endif
  /// gemm() of operands rounded to bf16 where native(), else in f32.
  void gemm_in_bf16(const Gemm& g);
  /// What it allocates.
  int64_t bf16_gemm_bytes(const Gemm& g);

  CpuDevice& device_;
  Allocator& allocator_ = device_.allocator;
  const CpuOptions& options_ = device_.options;
};

/// Throws internal: a kernel that exists in `expected` alone was handed a tensor of another dtype.
[[noreturn]] void refuse_dtype(DType expected, DType got);

/// The elements of x, which is f32.
inline float* f32(const Tensor& x) {
  if (x.dtype() != DType::f32) refuse_dtype(DType::f32, x.dtype());
  return static_cast<float*>(x.raw());
}
inline float* f32_or_null(const Tensor& x) {
  return x.defined() ? f32(x) : nullptr;
}
/// The elements of x, which is bf16.
inline bf16_t* bf16(const Tensor& x) {
  if (x.dtype() != DType::bf16) refuse_dtype(DType::bf16, x.dtype());
  return static_cast<bf16_t*>(x.raw());
}

/// to = value(i), rounded, of each element; nothing where `to` is undefined.
template <class Fn>
void write_elements(const Tensor& to, Fn&& value) {
  if (!to.defined()) return;
  visit_element("cpu", to.dtype(), [&]<class T>() {
    T* elements = static_cast<T*>(to.raw());
    for (int64_t i = 0; i < to.count(); ++i) store(elements[i], static_cast<float>(value(i)));
  });
}

/// The processor, its memory and what the backend computes with.
std::vector<BackendProperty> cpu_properties();

std::shared_ptr<ElementwiseKernels> make_elementwise(CpuDevice& device);
std::shared_ptr<ShapeIndexKernels> make_shape_index(CpuDevice& device);
std::shared_ptr<ReductionKernels> make_reduction(CpuDevice& device);
std::shared_ptr<GemmKernels> make_gemm(CpuDevice& device);
std::shared_ptr<ConvolutionKernels> make_convolution(CpuDevice& device);
std::shared_ptr<PoolingKernels> make_pooling(CpuDevice& device);
std::shared_ptr<NormalizationKernels> make_normalization(CpuDevice& device);
std::shared_ptr<RecurrentKernels> make_recurrent(CpuDevice& device);
std::shared_ptr<LossKernels> make_losses(CpuDevice& device);
std::shared_ptr<TrainingStepKernels> make_training_step(CpuDevice& device);
std::shared_ptr<AttentionKernels> make_attention(CpuDevice& device);

}  // namespace whisker::cpu
