// The CPU backend's class, one family of kernels per file beside this one. Copies, casts,
// comparisons and indexing take every dtype; pointwise operators, pooling and batch normalisation
// f32 and bf16; Bf16Backend (bf16.h) brings bf16 to the rest.
#pragma once

#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/allocator.h"

#include <functional>

namespace whisker::cpu {

class Conv2dAlgorithms;
class GemmAlgorithms;

class CpuBackend : public Backend {
 public:
  CpuBackend();
  ~CpuBackend() override;

  const CpuOptions& options() const { return options_; }
  void set_options(const CpuOptions& options);

  std::vector<BackendProperty> properties() const override;
  std::string export_algorithms() const override;
  void import_algorithms(std::string_view text) override;
  void* allocate(int64_t bytes, MemoryCategory category) override;
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override;
  MemoryStats memory_stats() const override;
  void reset_peak() override;
  void set_memory_options(const MemoryOptions& options) override;
  void empty_cache() override;
  void upload(const void* host, void* device, int64_t bytes) override;
  void download(const void* device, void* host, int64_t bytes) override;
  void copy(const void* source, void* target, int64_t bytes) override;
  void synchronize() override {}
  void* allocate_pinned(int64_t bytes) override;
  void deallocate_pinned(void* memory, int64_t bytes) override;

  // --- pointwise -----------------------------------------------------------------------------
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

  // --- shape and index -----------------------------------------------------------------------
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

  // --- gemm ----------------------------------------------------------------------------------
  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override;
  void linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override;

  // --- convolution and pooling ---------------------------------------------------------------
  void conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override;
  void conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override;
  int64_t pool2d_workspace_bytes(const Pool2dGeometry& g) override;
  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override;
  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override;

  // --- recurrent layers ----------------------------------------------------------------------
  int64_t recurrent_reserve_bytes(const RecurrentGeometry& g) override;
  void recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                 const RecurrentOutputs& out) override;
  void recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                          const RecurrentOutputs& out,
                          const RecurrentGradients& gradients) override;

  // --- normalisation -------------------------------------------------------------------------
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

  // --- losses --------------------------------------------------------------------------------
  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override;
  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override;
  void cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits, const Tensor& target,
                     const Tensor& class_weight, const Tensor& loss,
                     const Tensor& dlogits) override;
  void binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                            const Tensor& dlogits) override;

  // --- the training step ---------------------------------------------------------------------
  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override;
  void add_squares(const Tensor& x, double* sum) override;
  void begin_update(const StepRule& rule, StepState* state) override;
  void optimizer_step(const OptimizerStep& step) override;
  void moving_average(const AverageStep& step) override;
  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override;
  void swap(const Tensor& a, const Tensor& b) override;

 protected:
  /// Computes a gemm over all steps of a recurrent layer.
  using LargeGemm = std::function<void(const Gemm&)>;
  void run_recurrent(const LargeGemm& large_gemm, const RecurrentGeometry& g,
                     const RecurrentInputs& in, const RecurrentOutputs& out);
  void run_recurrent_backward(const LargeGemm& large_gemm, const RecurrentGeometry& g,
                              const RecurrentInputs& in, const RecurrentOutputs& out,
                              const RecurrentGradients& gradients);

  template <class T>
  Scratch<T> scratch(int64_t count) {
    return Scratch<T>(allocator_, count);
  }
  Allocator allocator_;
  CpuOptions options_;
  int default_threads_;
#if WHISKER_ONEDNN
  std::unique_ptr<Conv2dAlgorithms> algorithms_;
  std::unique_ptr<GemmAlgorithms> gemms_;
#endif
};

inline float* f32(const Tensor& x) {
  return static_cast<float*>(x.raw());
}

}  // namespace whisker::cpu
