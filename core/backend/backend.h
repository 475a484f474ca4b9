// What a device can do. Operators (core/ops/) check every argument, compute the geometry and
// allocate outputs; a backend method computes, checks nothing and records nothing. Outputs are
// overwritten unless a comment says otherwise. Shapes stand in the margin.
#pragma once

#include "core/backend/batch_count.h"
#include "core/backend/geometry.h"
#include "core/backend/optimizer_step.h"
#include "core/backend/recurrent.h"
#include "core/backend/registry.h"
#include "core/image/image_pipeline.h"
#include "core/image/jpeg_decoder.h"
#include "core/memory/memory.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One fact about a device: ("instructions", "AVX2, AVX-512").
struct BackendProperty {
  std::string name, value;
};

/// Points in the order of a device's work, by which to time it.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Enqueues a mark and returns its number, from 0. Does not wait. Not while capturing.
  virtual int64_t mark() = 0;
  /// When each mark was passed, in milliseconds after the first one. Waits for the device.
  virtual std::vector<double> read() = 0;
};

/// Work recorded by Backend::capture.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Does the work once more, on the same memory; in order with the device's operators, and without
  /// waiting for it.
  virtual void replay() = 0;
};

struct UnsummedGrads;
class FusedAddNorms;
class FusedConvNorm;
class FusedNormPool;

/// What training makes of a batch_norm's running statistics, (channels) each: the pending ones
/// become (1 - momentum) running + momentum batch. All undefined where there are none.
struct RunningStatistics {
  Tensor mean, variance;
  Tensor pending_mean, pending_variance;
  double momentum = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// What it computes on and with, for people.
  virtual std::vector<BackendProperty> properties() const = 0;

  // --- timed choices -------------------------------------------------------------------------
  /// The algorithms that timing has chosen so far, with what the choice depends on (library
  /// versions, instruction set, threads), as JSON for import_algorithms; "" when there are none.
  /// Results repeat bit for bit only under the same choices.
  virtual std::string export_algorithms() const { return ""; }
  /// Takes over exported choices; later convolutions follow them and are not timed. Those made
  /// under other versions, instructions or threads are ignored. Throws checkpoint, having changed
  /// nothing, when the text is damaged.
  virtual void import_algorithms(std::string_view) {}

  // --- memory --------------------------------------------------------------------------------
  /// 64-byte aligned (256 on a GPU). Throws device when none is left.
  virtual void* allocate(int64_t bytes, MemoryCategory category) = 0;
  virtual void deallocate(void* memory, int64_t bytes, MemoryCategory category) = 0;
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak() = 0;
  /// The allocator's books beside what the system shows; a host device's by default.
  virtual MemorySummary memory_summary() const;
  virtual void set_memory_options(const MemoryOptions& options) = 0;
  /// Gives cached, unused memory back to the system.
  virtual void empty_cache() = 0;
  /// Host memory to device and back; both return once the copy is complete.
  virtual void upload(const void* host, void* device, int64_t bytes) = 0;
  virtual void download(const void* device, void* host, int64_t bytes) = 0;
  virtual void copy(const void* source, void* target, int64_t bytes) = 0;
  /// Host memory to device in the order of the operators, without waiting for them: `host` may be
  /// changed once this returns. Not while capturing.
  virtual void enqueue_upload(const void* host, void* device, int64_t bytes) {
    upload(host, device, bytes);
  }
  virtual void synchronize() = 0;
  /// Null on host devices, whose work is done when a method returns.
  virtual std::unique_ptr<DeviceClock> make_clock() { return nullptr; }
  /// Records what `work` asks of this device, without doing it; null, with `work` not called, where
  /// that cannot be done (host devices). `work` must neither wait for the device nor read from it.
  /// Memory that it takes stays reserved until the graph goes, also what it gives back; graphs of
  /// one device may share it, as nothing outlives a replay but what lay in memory taken before.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& /*work*/) {
    return nullptr;
  }

  // --- images ------------------------------------------------------------------------------
  /// Host memory that the device can read while the host goes on; plain memory on host devices.
  /// Thread-safe. Slow: keep what you get. Throws device when none is left.
  virtual void* allocate_pinned(int64_t bytes) = 0;
  virtual void deallocate_pinned(void* memory, int64_t bytes) = 0;
  /// Null on host devices, whose images the loader's threads finish.
  virtual std::unique_ptr<ImagePipeline> make_image_pipeline() { return nullptr; }
  /// Null where JPEG files cannot be decoded on the device; `why` then says so in a sentence.
  virtual std::shared_ptr<JpegDecoder> make_jpeg_decoder(std::string& why) {
    why = "this device leaves decoding to the host.";
    return nullptr;
  }

  // --- pointwise -----------------------------------------------------------------------------
  virtual void fill(double value, const Tensor& y) = 0;
  /// Conversion rules: core/tensor/convert.h.
  virtual void cast(const Tensor& x, const Tensor& y) = 0;
  virtual void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) = 0;
  virtual void binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
                      const Tensor& y) = 0;
  /// sum += term, same shape.
  virtual void accumulate(const Tensor& term, const Tensor& sum) = 0;
  virtual void compare(CompareOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
                       const Tensor& y /* bool */) = 0;
  /// y = condition ? a : b, all of one shape.
  virtual void where(const Tensor& condition /* bool */, const Tensor& a, const Tensor& b,
                     const Tensor& y) = 0;
  virtual void activation(ActivationSpec f, const Tensor& x, const Tensor& y) = 0;
  /// dx = f' dy; `saved` is y where grad_from_output, else x. dx may be dy.
  virtual void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                   const Tensor& dx) = 0;
  /// out = f'' dy v: the derivative of activation_backward by x, for double backward.
  virtual void activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                 const Tensor& v, const Tensor& out) = 0;
  /// y = x / (1 - rate) where dropout_keeps(key, element index), else 0: see
  /// core/backend/dropout_mask.h.
  virtual void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) = 0;

  // --- shape and index -----------------------------------------------------------------------
  /// Any dtype (both alike); elements of y outside the walk stay. With `add`, y += x (floating).
  virtual void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) = 0;
  virtual void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) = 0;
  /// First position of the largest element along the middle axis; a NaN counts as the largest.
  virtual void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y /* i64 */) = 0;
  virtual void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index /* i64 */,
                      const Tensor& y) = 0;
  /// dx = sum of dy over the picks; dx is overwritten.
  virtual void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                               const Tensor& dx) = 0;
  /// y (picks, features) = table (entries, features) rows at index (picks).
  virtual void embedding(const Tensor& table, const Tensor& index, const Tensor& y) = 0;
  virtual void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) = 0;
  virtual void one_hot(const Tensor& index, const Tensor& y /* (..., classes) */) = 0;

  // --- matrix products -----------------------------------------------------------------------
  virtual void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b,
                      const Tensor& y) = 0;
  /// b is undefined unless g.bias.
  virtual void linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& y) = 0;
  /// dx, dw and db are each computed when defined. `y` carries the activation's derivative.
  /// It is undefined without one; x is undefined when dw is, w when dx is.
  virtual void linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                               const Tensor& y, const Tensor& dy, const Tensor& dx,
                               const Tensor& dw, const Tensor& db) = 0;

  // --- convolution and pooling ---------------------------------------------------------------
  virtual void conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& y) = 0;
  /// dx, dw and db are each computed when defined. `y` carries the activation's derivative and is
  /// undefined without one; x is undefined when dw is, w when dx is.
  virtual void conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                               const Tensor& y, const Tensor& dy, const Tensor& dx,
                               const Tensor& dw, const Tensor& db) = 0;
  /// Bytes that pool2d leaves for its backward pass (which element won); 0 when x and y serve.
  virtual int64_t pool2d_workspace_bytes(const Pool2dGeometry& g) = 0;
  /// `workspace` (u8) is undefined when no backward pass will follow.
  virtual void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
                      const Tensor& workspace) = 0;
  virtual void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                               const Tensor& dx) = 0;
  /// y (N, pool.h_out, pool.w_out, c_out) = f(largest of each window of x * w + b), f the
  /// convolution's activation, for which is_monotonic() holds. `workspace` as pool2d's for `pool`.
  /// Means its parts, one after the other; a backend with a kernel that joins them overrides both.
  virtual void conv2d_pool(const Conv2dGeometry& g, const Pool2dGeometry& pool, const Tensor& x,
                           const Tensor& w, const Tensor& b, const Tensor& y,
                           const Tensor& workspace);
  /// Operands as conv2d_backward's; y and dy are those of the windows.
  virtual void conv2d_pool_backward(const Conv2dGeometry& g, const Pool2dGeometry& pool,
                                    const Tensor& x, const Tensor& w, const Tensor& y,
                                    const Tensor& workspace, const Tensor& dy, const Tensor& dx,
                                    const Tensor& dw, const Tensor& db);

  /// Convolutions that do parts of the batch_norms around them; null where there are none.
  virtual FusedConvNorm* fused_conv_norm() { return nullptr; }
  /// Two batch_norms whose results are added, in passes over both; null where there are none.
  virtual FusedAddNorms* fused_add_norms() { return nullptr; }
  /// Batch_norms and the max-pooling behind them in one pass; null where there are none.
  virtual FusedNormPool* fused_norm_pool() { return nullptr; }

  // --- recurrent layers ----------------------------------------------------------------------
  /// Bytes that recurrent leaves for its backward pass.
  virtual int64_t recurrent_reserve_bytes(const RecurrentGeometry& g) = 0;
  /// Layouts: core/backend/recurrent.h. Padding, which may hold anything, is never read.
  virtual void recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                         const RecurrentOutputs& out) = 0;
  /// `in` and `out` as recurrent had and left them, without out.last.
  virtual void recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                  const RecurrentOutputs& out,
                                  const RecurrentGradients& gradients) = 0;

  // --- normalisation -------------------------------------------------------------------------
  /// Training: statistics of this batch. mean and inv_std (channels) are f32 (f64 for
  /// f64 x) and kept for backward, as are the running statistics, whose variance is unbiased.
  virtual void batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                const Tensor& beta, const Tensor& residual, const Tensor& y,
                                const Tensor& mean, const Tensor& inv_std,
                                const RunningStatistics& running) = 0;
  /// True when batch_norm_backward adds up the parts of dy itself.
  virtual bool adds_unsummed_grads() const { return false; }
  virtual void batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                    const Tensor& gamma, const Tensor& beta, const Tensor& residual,
                                    const Tensor& mean, const Tensor& variance,
                                    const Tensor& y) = 0;
  /// With `batch_statistics`, mean and inv_std depended on x (training), else they were
  /// constants. dx, dgamma, dbeta, dresidual are each computed when defined. x and
  /// inv_std are undefined when neither dx nor dgamma is, gamma and beta when dx is not,
  /// y without an activation, dy.second unless adds_unsummed_grads(). The activation's slope
  /// follows from y, or without a residual from x, gamma and beta.
  virtual void batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                   const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                   const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                                   const UnsummedGrads& dy, const Tensor& dx, const Tensor& dgamma,
                                   const Tensor& dbeta, const Tensor& dresidual) = 0;
  /// mean and inv_std: (rows).
  virtual void layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& y, const Tensor& mean,
                          const Tensor& inv_std) = 0;
  /// dx, dgamma, dbeta are each computed when defined. x is undefined when neither dx nor dgamma
  /// is, gamma when dx is not.
  virtual void layer_norm_backward(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                   const Tensor& mean, const Tensor& inv_std, const Tensor& dy,
                                   const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) = 0;

  // --- losses --------------------------------------------------------------------------------
  virtual void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) = 0;
  virtual void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                                const Tensor& dx) = 0;
  /// Mean loss (one element) and, when defined, its gradient by the logits, in one pass.
  /// Labels outside [0, classes): the host throws data (core/backend/host_label.h), a GPU sets its
  /// error word.
  virtual void cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits,
                             const Tensor& target, const Tensor& class_weight, const Tensor& loss,
                             const Tensor& dlogits) = 0;
  /// Mean over all elements; target in [0, 1], same shape as logits.
  virtual void binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                                    const Tensor& dlogits) = 0;

  // --- the training step: core/backend/step_state.h, core/backend/optimizer_step.h
  // ----------------------------- All pointers are device memory. Whatever changes from step to
  // step is read there, and nothing waits for the host, so that a whole step can be captured.
  /// Counts a batch in count.state (whisker::count_batch). logits f32 (rows, classes), or (rows, 1)
  /// for two classes told apart by the sign; loss f32, one element. A row is right when its first
  /// largest logit, or a logit above 0 for label 1, is the label's.
  virtual void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) = 0;
  /// *sum += sum of squares of a flat tensor, in f64; in one order, whatever the device's load.
  virtual void add_squares(const Tensor& x, double* sum) = 0;
  /// whisker::begin_update with sqrt(state->square_sum).
  virtual void begin_update(const StepRule& rule, StepState* state) = 0;
  virtual void optimizer_step(const OptimizerStep& step) = 0;
  /// The whole update of all runs of an arena: add_squares of their gradients, begin_update,
  /// optimizer_step. Means its parts; a backend that joins them overrides it.
  virtual void update(const StepRule& rule, StepState* state, std::span<const OptimizerStep> runs);
  virtual void moving_average(const AverageStep& step) = 0;
  /// Copies unless *condition is 0.
  virtual void copy_if(const int32_t* condition, const void* source, void* target,
                       int64_t bytes) = 0;
  virtual void swap(const Tensor& a, const Tensor& b) = 0;
};

}  // namespace whisker
