// The reference backend: plain loops in f32 and f64, the textbook definition of every operator, to
// be read and to be compared with. One file per family; sums are accumulated in double. Pointwise,
// copying and indexing operators take every dtype, the rest f32 and f64.
#pragma once

#include "core/backend/backend.h"
#include "core/memory/host_memory.h"

#include <memory>

namespace whisker {

class ReferenceBackend final : public Backend {
 public:
  // reference_backend.cpp
  std::vector<BackendProperty> properties() const override;
  void* allocate(int64_t bytes, MemoryCategory category) override;
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override;
  MemoryStats memory_stats() const override { return memory_.stats(); }
  void reset_peak() override { memory_.reset_peak(); }
  void set_memory_options(const MemoryOptions& options) override { memory_.set_options(options); }
  void empty_cache() override {}  // nothing is cached
  void upload(const void* host, void* device, int64_t bytes) override;
  void download(const void* device, void* host, int64_t bytes) override;
  void copy(const void* source, void* target, int64_t bytes) override;
  void synchronize() override {}  // every call is complete when it returns
  void* allocate_pinned(int64_t bytes) override;
  void deallocate_pinned(void* memory, int64_t bytes) override;

  // pointwise.cpp
  void fill(double value, const Tensor& y) override;
  void cast(const Tensor& x, const Tensor& y) override;
  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override;
  void binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
              const Tensor& y) override;
  void accumulate(const Tensor& term, const Tensor& sum) override;
  void compare(CompareOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
               const Tensor& y) override;
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override;
  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override;
  void activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy, const Tensor& v,
                         const Tensor& out) override;
  void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) override;

  // shape_index.cpp
  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override;
  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override;
  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override;
  void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
              const Tensor& y) override;
  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override;
  void embedding(const Tensor& table, const Tensor& index, const Tensor& y) override;
  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override;
  void one_hot(const Tensor& index, const Tensor& y) override;

  // matmul.cpp
  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override;
  void linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override;

  // conv2d.cpp
  void conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override;
  void conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override;

  // pool2d.cpp
  int64_t pool2d_workspace_bytes(const Pool2dGeometry& g) override;
  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override;
  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override;

  // recurrent.cpp
  int64_t recurrent_reserve_bytes(const RecurrentGeometry& g) override;
  void recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                 const RecurrentOutputs& out) override;
  void recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                          const RecurrentOutputs& out,
                          const RecurrentGradients& gradients) override;

  // norm.cpp
  void batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                        const Tensor& beta, const Tensor& residual, const Tensor& y,
                        const Tensor& mean, const Tensor& inv_std,
                        const RunningStatistics& running) override;
  void batch_norm_inference(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                            const Tensor& beta, const Tensor& residual, const Tensor& mean,
                            const Tensor& variance, const Tensor& y) override;
  void batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics, const Tensor& x,
                           const Tensor& gamma, const Tensor& beta, const Tensor& y,
                           const Tensor& mean, const Tensor& inv_std, const UnsummedGrads& dy,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta,
                           const Tensor& dresidual) override;
  void layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                  const Tensor& beta, const Tensor& y, const Tensor& mean,
                  const Tensor& inv_std) override;
  void layer_norm_backward(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                           const Tensor& mean, const Tensor& inv_std, const Tensor& dy,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) override;

  // loss.cpp
  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override;
  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override;
  void cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits, const Tensor& target,
                     const Tensor& class_weight, const Tensor& loss,
                     const Tensor& dlogits) override;
  void binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                            const Tensor& dlogits) override;

  // optimizer.cpp, step.cpp
  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override;
  void add_squares(const Tensor& x, double* sum) override;
  void begin_update(const StepRule& rule, StepState* state) override;
  void optimizer_step(const OptimizerStep& step) override;
  void moving_average(const AverageStep& step) override;
  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override;
  void swap(const Tensor& a, const Tensor& b) override;

 private:
  HostMemory memory_{"reference"};
};

std::unique_ptr<Backend> make_reference_backend();

}  // namespace whisker
