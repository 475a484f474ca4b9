// A forward pass worked out from shapes alone: which operators run on which values, what backward
// keeps and what is alive when. Nothing is allocated; summaries and memory predictions read it.
#pragma once

#include "core/backend/convolution.h"
#include "layers/module.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// One operator of a planned pass. Values are indices into MemoryPlan::values().
struct PlannedOperator {
  const Module* layer = nullptr;
  std::string what;  ///< "conv2d 32 3x3 relu": the layer's description, or of all fused ones
  std::vector<int> inputs;
  int output = 0;
  OperatorCost cost;
};

/// One tensor of a planned pass.
struct PlannedValue {
  Shape shape;
  bool needs_grad = false;
  int memory = 0;  ///< the value whose memory this is: itself, or the source of a view
};

class MemoryPlan {
 public:
  /// A pass of `model` over an input of shape `x`. Throws usage where a layer does not fit. Fused
  /// layers (layers/fusion.h) are one operator; with a device, also those that only training there
  /// in `dtype` fuses, and layers keep what they keep there. `recompute`: as if every outermost
  /// block were marked (layers/recomputed_blocks.h).
  static MemoryPlan of(const Module& model, const Shape& x, std::optional<Device> device = {},
                       DType dtype = DType::f32, bool recompute = false);

  /// The input, and what a container's add_to() needs.
  int add_input(const Shape& shape);
  int add(const Module& layer, std::vector<int> inputs, const Shape& output,
          const OperatorCost& cost, std::string what = {});
  /// Backward runs the operators from number `first` on again, as one block: it keeps what the
  /// first one reads. A block inside another one is planned as part of that.
  void add_recomputed(size_t first);
  bool recomputes() const { return recompute_; }
  const Shape& shape(int value) const { return values_[static_cast<size_t>(value)].shape; }
  std::optional<Device> device() const { return device_; }
  bool is_for(DeviceKind kind) const { return device_ && device_->kind == kind; }
  DType dtype() const { return dtype_; }
  /// Batches say how long each sequence is (none does before): kernels then copy what they read.
  void set_lengths(bool lengths) { lengths_ = lengths; }
  bool needs_grad(int value) const { return values_[static_cast<size_t>(value)].needs_grad; }

  /// What is fused, for people: "relu into conv2d".
  const std::vector<std::string>& notes() const { return notes_; }
  void add_notes(const std::vector<std::string>& notes);

  bool has_attention() const;
  /// Attention is taken for fused, as recent GPUs run it: the plan's is not here to ask.
  bool assumes_fused_attention() const;

  const std::vector<PlannedOperator>& operators() const { return operators_; }
  const std::vector<PlannedValue>& values() const { return values_; }

  int64_t multiply_adds() const;
  // The byte counts are of tensors whose elements have `width` bytes; with `scratch`, also of what
  // the operator that runs works in, as far as shapes decide that.
  /// Kept for backward: distinct tensors once, plus what operators keep besides.
  int64_t kept_bytes(int64_t width) const;
  /// The most alive at once in a pass that keeps nothing (inference).
  int64_t inference_bytes(int64_t width, bool scratch = false) const;
  /// The most alive at once in a forward and backward pass: the input, what is kept, what is on its
  /// way through the layers, and gradients of all but parameters.
  int64_t training_bytes(int64_t width, bool scratch = false) const;

 private:
  size_t memory_of(int value) const {
    return static_cast<size_t>(values_[static_cast<size_t>(value)].memory);
  }
  int64_t elements(size_t value) const { return values_[value].shape.count(); }
  bool device_is_here() const;
  bool runs_unfused(const PlannedOperator& op) const;
  /// Besides its operands and its result.
  int64_t kept_besides(const PlannedOperator& op, int64_t width) const;
  /// What operator `i` works in, forwards and backwards.
  KernelWorkspace workspace(size_t i, int64_t width) const;
  struct Block {  // operators first to end - 1
    size_t first = 0, end = 0;
  };
  std::vector<size_t> last_uses() const;
  std::vector<int> first_keepers(bool in_blocks) const;
  const Block* block_of(size_t op) const;
  size_t first_made(const Block& block) const {
    return static_cast<size_t>(operators_[block.first].output);
  }

  std::optional<Device> device_;
  DType dtype_ = DType::f32;
  mutable std::optional<bool> is_here_;  // of the device, once it was asked
  bool recompute_ = false;
  bool lengths_ = false;
  std::vector<Block> recomputed_;
  std::vector<PlannedOperator> operators_;
  std::vector<PlannedValue> values_;
  std::vector<std::string> notes_;
};

}  // namespace whisker
