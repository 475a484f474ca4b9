// What cuDNN needs for consecutive recurrent layers of one geometry: descriptors, workspace sizes,
// the position of each parameter in its block of weights.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/cudnn_descriptor.h"

#include <span>
#include <vector>

#include <cudnn.h>

namespace whisker::cuda {

/// Owns a cuDNN descriptor.
template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
class CudnnHandle {
 public:
  CudnnHandle() { cudnn::check(create(&raw_), "making a descriptor"); }
  ~CudnnHandle() { destroy(raw_); }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  T raw() const { return raw_; }

 private:
  T raw_ = nullptr;
};

/// The operands of one call; null is undefined.
struct RecurrentCall {
  const void* x = nullptr;        // (steps, batch, features)
  void* y = nullptr;              // (steps, batch, directions output)
  const void* h = nullptr;        // (cells, batch, output), before the first step
  const void* c = nullptr;        // (cells, batch, hidden)
  const void* weights = nullptr;  // weight_bytes()
  void* workspace = nullptr;      // workspace_bytes()
  void* reserve = nullptr;        // reserve_bytes(); null: no backward pass will follow
};

/// All sequences have the full length `steps`.
class CudnnRecurrentPlan {
 public:
  /// `g` without dropout. Throws device where cuDNN does not support it.
  CudnnRecurrentPlan(Context& context, Allocator& allocator, const RecurrentGeometry& g, bool tf32);

  bool computes(const RecurrentGeometry& g, bool tf32) const { return g == g_ && tf32 == tf32_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }  ///< enough for every pass
  int64_t reserve_bytes() const { return reserve_bytes_; }

  /// A parameter, or adjacent ones, and their place in the block of weights.
  struct Copy {
    char* unpacked;
    char* packed;
    int64_t bytes;
  };
  /// The copies between the defined parameters of `cells` and the block `weights`.
  std::vector<Copy> copies(std::span<const RecurrentParameters> cells, void* weights) const;

  /// h and c after the last step go to `h_last` and `c_last`.
  void forward(const RecurrentCall& call, void* h_last, void* c_last);
  /// After forward, from dy and the gradients of its last states (null: zeros).
  void backward_data(const RecurrentCall& call, const void* dy, const void* dh_last,
                     const void* dc_last, void* dx, void* dh, void* dc);
  /// After backward_data: dweights, which is zero before.
  void backward_weights(const RecurrentCall& call, void* dweights);

 private:
  using TensorHandle = CudnnHandle<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                                   cudnnDestroyTensorDescriptor>;
  using StepsHandle = CudnnHandle<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor,
                                  cudnnDestroyRNNDataDescriptor>;
  struct WeightRegion {
    size_t cell = 0;
    Tensor RecurrentParameters::*member = nullptr;
    int64_t first = 0;  // byte of the parameter
    int64_t bytes = 0;
    int64_t at = 0;  // byte of the weights
  };
  void find_regions(Allocator& allocator);
  cudnnTensorDescriptor_t c_descriptor() const { return g_.is_lstm() ? c_.raw() : nullptr; }

  Context& context_;
  RecurrentGeometry g_;
  bool tf32_;
  CudnnHandle<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor> rnn_;
  CudnnHandle<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>
      dropout_;
  StepsHandle x_, y_;
  TensorHandle h_, c_;
  int64_t weight_bytes_ = 0, workspace_bytes_ = 0, reserve_bytes_ = 0;
  std::vector<WeightRegion> regions_;  // by `at`
};

}  // namespace whisker::cuda
