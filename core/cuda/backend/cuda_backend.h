// The CUDA backend's class. Its methods stand in one .cpp per topic beside this file and turn
// tensors into calls of launchers; the launchers and their kernels stand in the folders and take
// pointers, extents, a DType and a stream.
//
// Note [Folders of the CUDA backend]
// From the ground up, each uses those before it: runtime (a device's streams, handles, errors,
// libraries), device_code (what kernels share), memory (the allocator, uploads, captured graphs),
// autotune (the autotune table, timing), kernels, gemm, norm, convolution and image, then recurrent
// and fused_conv_norm, which use several; and this folder, the backend itself.
#pragma once

#include "core/backend/backend.h"
#include "core/cuda/backend/algorithm_choices.h"
#include "core/cuda/backend/fused_norms.h"
#include "core/cuda/fused_conv_norm/fused_conv_norm.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/memory/upload.h"
#include "core/cuda/runtime/context.h"
#include "core/nvidia/cuda_library.h"

#include <functional>

namespace whisker::cuda {

class VariableLengthCudnn;

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device);
  ~CudaBackend() override;

  const CudaOptions& options() const { return options_; }
  void set_options(const CudaOptions& options);
  Context& context() { return context_; }
  const Context& context() const { return context_; }

  std::vector<BackendProperty> properties() const override;
  std::string export_algorithms() const override;
  void import_algorithms(std::string_view text) override;
  void* allocate(int64_t bytes, MemoryCategory category) override;
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override;
  MemoryStats memory_stats() const override;
  MemorySummary memory_summary() const override;
  void reset_peak() override;
  void set_memory_options(const MemoryOptions& options) override;
  void empty_cache() override;
  void upload(const void* host, void* device, int64_t bytes) override;
  void download(const void* device, void* host, int64_t bytes) override;
  void copy(const void* source, void* target, int64_t bytes) override;
  void enqueue_upload(const void* host, void* device, int64_t bytes) override;
  void synchronize() override;
  std::unique_ptr<DeviceClock> make_clock() override;
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override;
  void* allocate_pinned(int64_t bytes) override;
  void deallocate_pinned(void* memory, int64_t bytes) override;
  std::unique_ptr<ImagePipeline> make_image_pipeline() override;
  std::shared_ptr<JpegDecoder> make_jpeg_decoder(std::string& why) override;

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

  // --- matrix products -----------------------------------------------------------------------
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

  void conv2d_pool(const Conv2dGeometry& g, const Pool2dGeometry& pool, const Tensor& x,
                   const Tensor& w, const Tensor& b, const Tensor& y,
                   const Tensor& workspace) override;
  void conv2d_pool_backward(const Conv2dGeometry& g, const Pool2dGeometry& pool, const Tensor& x,
                            const Tensor& w, const Tensor& y, const Tensor& workspace,
                            const Tensor& dy, const Tensor& dx, const Tensor& dw,
                            const Tensor& db) override;

  FusedConvNorm* fused_conv_norm() override { return &conv_norm_; }
  FusedAddNorms* fused_add_norms() override { return &add_norms_; }
  FusedNormPool* fused_norm_pool() override { return &norm_pool_; }

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
  bool adds_unsummed_grads() const override { return true; }
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
  void update(const StepRule& rule, StepState* state, std::span<const OptimizerStep> runs) override;
  void moving_average(const AverageStep& step) override;
  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override;
  void swap(const Tensor& a, const Tensor& b) override;

 private:
  Scratch scratch(int64_t bytes) { return Scratch(allocator_, bytes); }
  /// The compute stream, after making this the thread's device.
  cudaStream_t stream() const {
    context_.enter();
    return context_.stream();
  }

  /// Whether they compute recurrent layers of this geometry: see RecurrentChoice::by_own_kernels.
  bool by_persistent_layers(const RecurrentGeometry& g, bool training);
  PersistentLayers persistent_layers();
  CudnnRecurrent cudnn_recurrent();
  VariableLengthCudnn variable_length_cudnn();
  /// A forward request, or its parts where no algorithm fuses them.
  void convolve_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// Computes w and dx of the operands, where not null: one kernel straight from dy where there is
  /// one, else unfused(). `weights` is the weights' request.
  void convolve_backward(ConvolutionRequest weights, const ConvolutionOperands& operands,
                         const std::function<void()>& unfused);
  /// The same from dz, by plain requests.
  void convolve_backward_from(void* dz, const ConvolutionRequest& weights,
                              const ConvolutionOperands& operands);
  bool tf32() const { return options_.tf32 && !options_.deterministic; }

  Context context_;
  Allocator allocator_;
  Uploader staging_;
  CudaOptions options_;
  AlgorithmChoices algorithms_;
  CudaFusedConvNorm conv_norm_;
  CudaFusedAddNorms add_norms_{context_, allocator_};
  CudaFusedNormPool norm_pool_{context_, allocator_};
};

}  // namespace whisker::cuda
