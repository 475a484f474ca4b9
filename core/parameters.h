// Parameters and buffers of a model, and the arena that holds them: values, gradients and whatever
// an optimizer needs are each one flat allocation with 256-byte aligned slices (DECISIONS 10-14).
#pragma once

#include "core/autograd.h"
#include "core/tensor.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// What a parameter is for: chooses weight decay exemptions and the order of axes in files.
enum class ParameterRole : uint8_t {
  weight,       ///< matrices; files keep (out, in)
  conv_weight,  ///< (c_out, kh, kw, c_in) here, OIHW in files
  bias,
  norm,    ///< gamma and beta of normalisation layers
  buffer,  ///< not trained: running statistics
};

/// Fills host memory with initial values: (seed, stream of the full name, elements).
using Initializer = std::function<void(uint64_t seed, uint64_t stream, std::span<float> values)>;

/// One named tensor of a model. Layers create it with shape, role and initializer, and read
/// value() once an arena has materialised it.
class Parameter {
 public:
  Parameter(Shape shape, ParameterRole role, Initializer initializer)
      : shape_(shape), role_(role), initializer_(std::move(initializer)) {}

  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  ParameterRole role() const { return role_; }
  bool is_buffer() const { return role_ == ParameterRole::buffer; }

  /// What layers compute with; requires a gradient when trainable. Undefined before an arena.
  const Tensor& value() const { return value_; }
  /// The value a training step computed for a buffer, waiting to be committed.
  const Tensor& pending() const { return pending_; }
  /// This parameter's slice of the gradient arena; undefined for buffers and frozen parameters.
  const Tensor& gradient() const { return gradient_; }

  bool trainable() const { return trainable_ && !is_buffer(); }
  /// Throws usage once an arena holds the parameter.
  void set_trainable(bool trainable);
  /// Optimizer group: index into OptimizerStep::groups.
  int group() const { return group_; }
  /// Throws usage once an arena holds the parameter, or outside [0, 255].
  void set_group(int group);
  void set_name(std::string name) { name_ = std::move(name); }

  /// For the weight of a dense layer behind a flatten: channels of the flattened picture, so that
  /// files can hold its input in (C, H, W) order; memory has (H, W, C). 0 for all others.
  int64_t flattened_channels = 0;

 private:
  friend class ParameterArena;
  std::string name_;
  Shape shape_;
  ParameterRole role_;
  Initializer initializer_;
  bool trainable_ = true;
  int group_ = 0;
  int64_t offset_ = 0;  // in elements, within its flat tensor
  Tensor value_, gradient_, pending_;
  Ref<Leaf> leaf_;
};

using ParameterList = std::vector<std::shared_ptr<Parameter>>;

class ParameterArena {
 public:
  /// Allocates every parameter and buffer on `device` (`dtype` f32, or f64 on the reference) and
  /// fills them from their initializers, keyed by `seed` and the parameter's name. Without a seed
  /// they stay zero: for weights that will be loaded, whose initial values would be drawn for
  /// nothing.
  ParameterArena(ParameterList parameters, Device device, std::optional<uint64_t> seed,
                 DType dtype = DType::f32);

  const ParameterList& parameters() const { return parameters_; }
  Device device() const { return values_.device(); }

  // Flat memory of the trainable part, in layer order. All have count() elements; padding is zero.
  int64_t count() const { return values_.count(); }
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  /// u8, one optimizer group per 256-byte block of values().
  const Tensor& block_group() const { return block_group_; }
  /// A zeroed flat tensor laid out like values(): moments, averages.
  Tensor make_like(MemoryCategory category) const;

  /// Host copy of a parameter, buffer, or (given `flat` from make_like) of its slice there.
  std::vector<float> read(const Parameter& parameter) const;
  std::vector<float> read(const Tensor& flat, const Parameter& parameter) const;
  /// Overwrites one parameter, buffer or slice of `flat`. Throws usage when the count differs.
  void write(const Parameter& parameter, std::span<const float> values);
  void write(const Tensor& flat, const Parameter& parameter, std::span<const float> values);

  /// The next backward overwrites every gradient.
  void zero_grad();
  /// Zeroes the slices no backward reached since zero_grad(), so that gradients() is whole.
  void complete_gradients();
  /// Makes the pending buffers current: after a step whose loss and gradients were finite.
  void commit_buffers();
  /// Call after writing to values() as a whole: saved tensors notice.
  void bump_epoch() { epoch_->fetch_add(1, std::memory_order_relaxed); }

 private:
  Tensor flat(int64_t elements, DType dtype, MemoryCategory category, Device device) const;
  Tensor slice(const Tensor& flat, const Parameter& parameter) const;

  ParameterList parameters_;
  Tensor values_, gradients_, block_group_;
  Tensor buffers_, pending_, frozen_;
  std::shared_ptr<std::atomic<uint64_t>> epoch_;
};

}  // namespace whisker
