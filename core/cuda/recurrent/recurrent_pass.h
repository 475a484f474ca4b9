// The ways to compute recurrent layers, by own kernels and by cuDNN, and what their passes share:
// operands, memory, dropout between layers.
#pragma once

#include "core/backend/recurrent.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plan.h"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"
#include "core/cuda/recurrent/recurrent_kernels.h"
#include "core/cuda/recurrent/recurrent_sizes.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace whisker::cuda {

/// Device memory for the work that is enqueued in its lifetime.
class RecurrentMemory {
 public:
  RecurrentMemory(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void* take(int64_t bytes) {
    return scratch_.emplace_back(allocator_, std::max<int64_t>(bytes, 1)).data();
  }
  void* copied(const Tensor& x) {
    void* const copy = take(x.bytes());
    copy_on_device(context_.stream(), x.raw(), copy, x.bytes());
    return copy;
  }
  /// The memory of `x`, null where it is undefined; a copy unless aligned to 16 bytes.
  void* aligned(const Tensor& x) {
    return !x.defined() || is_aligned(x.raw()) ? pointer(x) : copied(x);
  }
  void* zeros(int64_t bytes) {
    void* const memory = take(bytes);
    check(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), context_.stream()),
          "clearing memory of recurrent layers");
    return memory;
  }

 private:
  Context& context_;
  Allocator& allocator_;
  std::deque<Scratch> scratch_;
};

/// `memory` from a byte on; null stays null.
inline char* advance(const void* memory, int64_t bytes) {
  return memory ? static_cast<char*>(const_cast<void*>(memory)) + bytes : nullptr;
}

/// The operands of one call of RecurrentKernels, which outlive it.
class RecurrentPass {
 protected:
  RecurrentPass(CudaDevice& device, const RecurrentGeometry& g, const RecurrentInputs& in,
                const RecurrentOutputs& out)
      : context_(device.context), allocator_(device.allocator), g_(g), in_(in), out_(out) {}

  /// The part of the states (cells, batch, output or hidden) that begins at `cell`; null stays
  /// null.
  char* h_of(int64_t cell, const void* states) const {
    return advance(states, cell * g_.batch * g_.output() * width_of(g_));
  }
  char* c_of(int64_t cell, const void* states) const {
    return advance(states, cell * g_.batch * g_.hidden * width_of(g_));
  }

  /// Dropout of the result of `layer`, or of its gradient; nothing where there is none. `to` may be
  /// `from`.
  void drop(int64_t layer, const void* from, void* to) const {
    if (g_.dropout == 0) return;
    kernels::dropout(stream_, g_.dropout, recurrent_mask_key(in_.key, layer), g_.dtype, from, to,
                     result_bytes(g_) / width_of(g_));
  }
  /// The input of the layer above `layer`, whose result is y: y itself, or in other memory.
  void* dropped(int64_t layer, void* y, RecurrentMemory& memory) const {
    if (g_.dropout == 0) return y;
    void* const result = memory.take(result_bytes(g_));
    drop(layer, y, result);
    return result;
  }

  kernels::Sequences sequences(bool backwards) const {
    return {.steps = g_.steps,
            .batch = g_.batch,
            .lengths = static_cast<const int64_t*>(in_.lengths.raw()),
            .backwards = backwards,
            .dtype = g_.dtype};
  }

  Context& context_;
  Allocator& allocator_;
  const cudaStream_t stream_ = context_.stream();
  const RecurrentGeometry& g_;
  const RecurrentInputs& in_;
  const RecurrentOutputs& out_;
  RecurrentMemory memory_{context_, allocator_};
  const void* const h_ = memory_.aligned(in_.initial.h);
  const void* const c_ = memory_.aligned(in_.initial.c);
};

/// By Whisker's persistent kernels, with gemms over all steps before and after them. Lengths are
/// read on the device only. f32 is supported only where options allow to round to tf32.
class PersistentLayers final : public RecurrentKernels, CudaKernels {
 public:
  explicit PersistentLayers(CudaDevice& device) : CudaKernels(device) {}

  /// Whether kernels fit `g` on this GPU.
  bool fits(const RecurrentGeometry& g) const { return tiling(g).has_value(); }

  /// `g` fits. Nothing waits for the device; backward does not change the reserve.
  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;

 private:
  std::optional<PersistentTiling> tiling(const RecurrentGeometry& g) const;
};

/// By cuDNN's standard algorithm, which computes everything and repeats bit for bit.
class CudnnRecurrent final : public RecurrentKernels, CudaKernels {
 public:
  explicit CudnnRecurrent(CudaDevice& device) : CudaKernels(device) {}

  /// `g` has neither dropout nor lengths. Throws device where cuDNN does not support it.
  CudnnRecurrentPlan& plan(const RecurrentGeometry& g);

  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  /// Changes the reserve in a capture: call it once after each forward.
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;

 private:
  std::vector<std::unique_ptr<CudnnRecurrentPlan>> plans_;
};

}  // namespace whisker::cuda
