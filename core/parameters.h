// Parameters and buffers of a model, and the arena that holds them: values, gradients and whatever
// an optimizer needs are each one flat allocation with 256-byte aligned slices (DECISIONS 10-14).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/tensor.h"

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
  /// Before materialisation only.
  void set_trainable(bool trainable);
  /// Optimizer group (index into the step's groups). Before materialisation only.
  int group() const { return group_; }
  void set_group(int group);
  void set_name(std::string name) { name_ = std::move(name); }

  /// The flatten before this dense weight had (C, H, W) order in files: C, and H W (0: none).
  int64_t flattened_channels = 0;

 private:
  friend class ParameterArena;
  std::string name_;
  Shape shape_;
  ParameterRole role_;
  Initializer initializer_;
  bool trainable_ = true;
  int group_ = 0;
  Tensor value_, gradient_, pending_;
  Ref<Leaf> leaf_;
};

using ParameterList = std::vector<std::shared_ptr<Parameter>>;

class ParameterArena {
 public:
  /// Allocates every parameter and buffer on `device` (`dtype` f32, or f64 on the reference) and
  /// fills them from their initializers, keyed by `seed` and the parameter's name.
  ParameterArena(ParameterList parameters, Device device, uint64_t seed, DType dtype = DType::f32);

  const ParameterList& parameters() const { return parameters_; }
  Device device() const { return device_; }

  // Flat memory of the trainable part, in layer order. All have count() elements.
  int64_t count() const { return count_; }
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  /// u8, one group index per 256-byte block of values().
  const Tensor& block_group() const { return block_group_; }
  /// A zeroed flat tensor laid out like values(): moments, averages.
  Tensor make_like(MemoryCategory category) const;
  /// The slice of `flat` (made by make_like, or values()) that belongs to `parameter`.
  Tensor slice_of(const Tensor& flat, const Parameter& parameter) const;
  /// Flat memory of frozen parameters and buffers.
  const Tensor& constants() const { return constants_; }

  /// The next backward overwrites every gradient.
  void zero_grad();
  /// Zeroes the slices no backward reached since zero_grad(), so that gradients() is whole.
  void complete_gradients();
  /// Makes the pending buffers current: after a step whose loss and gradients were finite.
  void commit_buffers();
  /// Call after writing to values() or constants() as a whole: saved tensors notice.
  void bump_epoch();

 private:
  struct Owner;
  ParameterList parameters_;
  Device device_;
  DType dtype_;
  int64_t count_ = 0;
  std::vector<int64_t> offsets_;  // in elements, per parameter, within its own flat tensor
  Tensor values_, gradients_, constants_, pending_, block_group_;
  std::shared_ptr<std::atomic<uint64_t>> epoch_;
};

}  // namespace whisker
