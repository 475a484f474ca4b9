// What cuDNN needs for consecutive recurrent layers of one geometry (descriptors, workspace sizes,
// the position of each parameter in its block of weights), and which of its algorithms computes.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/cuda/autotune/autotuned.h"
#include "core/cuda/recurrent/recurrent_kernels.h"
#include "core/cuda/runtime/cudnn_descriptor.h"

#include <map>
#include <memory>
#include <span>
#include <string>
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
  /// `g` without dropout. Throws device where cuDNN does not support it by this algorithm.
  CudnnRecurrentPlan(Context& context, Allocator& allocator, const RecurrentGeometry& g,
                     cudnnRNNAlgo_t algorithm, bool tf32);

  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }  ///< enough for every pass
  int64_t reserve_bytes() const { return reserve_bytes_; }

  /// The copies between the defined parameters of `cells` and the block `weights`.
  std::vector<kernels::Copy> copies(std::span<const RecurrentParameters> cells,
                                    void* weights) const;

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
  CudnnHandle<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor> rnn_;
  CudnnHandle<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>
      dropout_;
  StepsHandle x_, y_;
  TensorHandle h_, c_;
  int64_t weight_bytes_ = 0, workspace_bytes_ = 0, reserve_bytes_ = 0;
  std::vector<WeightRegion> regions_;
};

/// Text that identifies the geometry, but for dropout: the key of the autotune table.
std::string describe(const RecurrentGeometry& g, bool tf32);

/// Chooses cuDNN's algorithm: the autotune table's choice, or the standard one; in training, while
/// searching is allowed, the fastest by timing. The reserve depends on it, so a choice is final.
class CudnnRecurrentPlans : Autotuned {
 public:
  using Autotuned::Autotuned;

  /// `g` has no dropout. Timed only where `training`. Throws device where cuDNN cannot.
  CudnnRecurrentPlan& plan(const RecurrentGeometry& g, bool training);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { plans_.clear(); }

 private:
  using Plan = std::unique_ptr<CudnnRecurrentPlan>;
  Plan make(const RecurrentGeometry& g, cudnnRNNAlgo_t algorithm);
  Plan fastest(const RecurrentGeometry& g, const std::string& request);
  float milliseconds(const RecurrentGeometry& g, CudnnRecurrentPlan& plan, float hopeless);

  std::map<std::string, Plan> plans_;  // by describe()
};

}  // namespace whisker::cuda
