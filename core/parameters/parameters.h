// Parameters and buffers of a model, and the arena that holds them: values, gradients and whatever
// an optimizer needs are each one flat allocation with 256-byte aligned slices.
//
// Note [Compute views]
// A parameter is {master, compute view, gradient}. The master is f32: what optimizers change, files
// hold and averages swap. Under bf16 or f16 all but normalisation parameters and buffers have a
// copy in that dtype beside it, which layers read through value(); the others read the master
// itself. Trainable memory is therefore two runs, each in layer order: those with a compute view,
// then the rest. The optimizer writes masters and copies in one pass; after every other change of
// masters as a whole, refresh() makes the copies anew.
#pragma once

#include "core/autograd/autograd.h"
#include "core/tensor/tensor.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Kind of a parameter: decides its weight decay and the order of its axes in files.
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
  /// The f32 values behind value(), or value() itself off the tape: see Note [Compute views].
  const Tensor& master() const { return master_; }
  /// The value a training step computed for a buffer, waiting to be committed.
  const Tensor& pending() const { return pending_; }
  /// This parameter's slice of the gradient arena; undefined for buffers and frozen parameters.
  const Tensor& gradient() const { return gradient_; }

  bool trainable() const { return trainable_ && !is_buffer(); }
  /// Throws usage once an arena holds the parameter.
  void set_trainable(bool trainable);
  /// Whether steps change it now: trainable, and not waiting for ParameterArena::unfreeze().
  bool trains() const { return trainable() && !waits_; }
  /// An arena holds it like any other, but off the tape until unfreeze(). Throws usage once one
  /// does.
  void set_frozen_at_first();
  bool frozen_at_first() const { return frozen_at_first_; }
  /// Optimizer group: index into OptimizerStep::groups.
  int group() const { return group_; }
  /// Throws usage once an arena holds the parameter, or outside [0, 255].
  void set_group(int group);
  void set_name(std::string name) { name_ = std::move(name); }

  /// Channels of the flattened image, for the weight of a dense layer behind a flatten: so that
  /// files can hold its input in (C, H, W) order; memory has (H, W, C). 0 for all others.
  int64_t flattened_channels = 0;

 private:
  friend class ParameterArena;
  std::string name_;
  Shape shape_;
  ParameterRole role_;
  Initializer initializer_;
  bool trainable_ = true;
  bool frozen_at_first_ = false;
  bool waits_ = false;  // in an arena, for unfreeze()
  int group_ = 0;
  int64_t offset_ = 0;  // in elements, within its flat tensor
  Tensor master_, value_, gradient_, pending_;
  Ref<Leaf> leaf_;
};

using ParameterList = std::vector<std::shared_ptr<Parameter>>;

struct ArenaTypes {
  DType master = DType::f32;          ///< f64 on the reference
  std::optional<DType> compute = {};  ///< bf16 or f16 for compute views; else none are made
  bool wide_gradients = false;        ///< gradients as the master: sums over several batches
};

/// Bytes of an arena.
struct ArenaBytes {
  int64_t values = 0;     ///< masters, compute views, buffers and pending buffers
  int64_t trainable = 0;  ///< part of it: masters that are trained, the size of one make_like
  int64_t gradients = 0;
};

/// A contiguous part of the trainable memory whose elements are stored alike.
struct ParameterRun {
  int64_t offset = 0;  ///< first element within values()
  Tensor value;        ///< masters, (n)
  Tensor compute;      ///< (n) of the compute dtype, or undefined
  Tensor gradient;     ///< (n)
  Tensor block_group;  ///< u8, one optimizer group per 256-byte block of `value`
  /// This run's part of a tensor from make_like.
  Tensor of(const Tensor& flat) const;
};

class ParameterArena {
 public:
  /// Allocates every parameter and buffer on `device` and fills them from their initializers, keyed
  /// by `seed` and the parameter's name. Without a seed they stay zero, for weights that will be
  /// loaded.
  ParameterArena(ParameterList parameters, Device device, std::optional<uint64_t> seed,
                 ArenaTypes types = {});

  /// Bytes that an arena of `parameters` needs, with the padding of its slices.
  static ArenaBytes bytes_of(const ParameterList& parameters, ArenaTypes types);

  const ParameterList& parameters() const { return parameters_; }
  Device device() const { return device_; }
  /// What layers compute in.
  DType compute_dtype() const { return types_.compute.value_or(types_.master); }

  /// Elements of the trainable masters, padding (which is zero) included.
  int64_t count() const { return trainable_.count; }
  /// The trainable masters.
  const Tensor& values() const { return trainable_.values; }
  /// The one or two runs that values() is made of, without empty ones.
  const std::vector<ParameterRun>& runs() const { return runs_; }
  /// A zeroed flat tensor laid out like values(): moments, averages.
  Tensor make_like(MemoryCategory category) const;

  /// Host copy of a parameter's master, of a buffer, or (given `flat` from make_like) of its slice
  /// there.
  std::vector<float> read(const Parameter& parameter) const;
  std::vector<float> read(const Tensor& flat, const Parameter& parameter) const;
  /// Overwrites one parameter (its compute view, too), buffer or slice of `flat`. Throws usage when
  /// the count differs.
  void write(const Parameter& parameter, std::span<const float> values);
  void write(const Tensor& flat, const Parameter& parameter, std::span<const float> values);

  /// Puts the parameters that were frozen at first on the tape.
  void unfreeze();

  /// The next backward overwrites every gradient.
  void zero_grad();
  /// Zeroes the slices no backward reached since zero_grad(), so that the runs' gradients are
  /// whole.
  void complete_gradients();
  /// Makes the pending buffers current, unless *condition (in device memory) is 0.
  void commit_buffers(const int32_t* condition = nullptr);
  /// Call after writing to values() as a whole: updates the compute views and the version that
  /// saved tensors check.
  void refresh();
  /// Call after writing to masters and compute views as a whole: updates the version that saved
  /// tensors check.
  void bump_epoch() { epoch_->fetch_add(1, std::memory_order_relaxed); }

 private:
  /// Masters of one kind (trainable, frozen) with their compute views in front.
  struct Home {
    int64_t viewed = 0;  // elements of parameters with a compute view
    int64_t count = 0;
    Tensor values, compute;
  };
  bool has_view(const Parameter& parameter) const;
  int64_t padded(int64_t elements) const;
  void lay_out(Home& home, bool trainable);
  void lay_out_buffers();
  void make_runs();
  void materialise(Parameter& parameter);
  Tensor group_table() const;
  Tensor flat(int64_t elements, DType dtype, MemoryCategory category) const;
  Tensor slice(const Tensor& flat, const Parameter& parameter, int64_t flat_begin = 0) const;

  ParameterList parameters_;
  Device device_;
  ArenaTypes types_;
  Home trainable_, frozen_;
  Tensor buffers_, pending_;
  std::vector<ParameterRun> runs_;
  std::shared_ptr<std::atomic<uint64_t>> epoch_;
};

}  // namespace whisker
