// The base of every layer: one tensor in, one out, parameters and buffers under dotted names.
// Training or evaluation is a property of the pass, not of the module. No module has several
// inputs: Residual, Concat and Multiply are containers whose branches read the same one.
#pragma once

#include "core/backend/geometry.h"
#include "core/parameters/parameters.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

class MemoryPlan;
struct NormRanks;
struct RecurrentState;

/// States of recurrent layers by the layers' paths, carried from one stretch of long sequences to
/// the next (truncated back-propagation through time).
using CarriedStates = std::map<std::string, RecurrentState>;

/// A value between two layers, with what the layer before has computed of the next one's work.
struct LayerValue {
  Tensor y;
  Tensor sums = {};  ///< Convolved::sums of y, for a batch_norm
};

/// How a forward pass runs. `seed` and `step` key the random masks of dropout; `random_offset`, in
/// the device's memory or null, is added to `step` (see RandomKey) and lives until backward is
/// done.
struct Pass {
  bool training = false;
  uint64_t seed = 0;
  uint64_t step = 0;
  const int64_t* random_offset = nullptr;
  Tensor lengths = {};  ///< i64 (N): valid steps of each sequence (T, N, ...); undefined: all T
  /// Recurrent layers begin with their state where there is one, and leave the last, detached.
  CarriedStates* states = nullptr;
  /// Batch norms take the statistics of these ranks' rows; null: of this process's alone.
  const NormRanks* norm_ranks = nullptr;
};

/// Bytes of an f32 element: statistics have it whatever layers compute in.
inline constexpr int64_t element_bytes = 4;

/// What one operator costs beyond its output, worked out from shapes (see layers/memory_plan.h).
struct OperatorCost {
  int64_t multiply_adds = 0;        ///< of gemms and convolutions, in one forward pass
  bool keeps_input = false;         ///< its input stays in memory for backward
  bool keeps_second_input = false;  ///< and its second one
  bool keeps_output = false;        ///< its output does
  int64_t kept_elements = 0;        ///< kept besides, of the dtype that layers compute in
  int64_t kept_bytes = 0;           ///< kept besides, whatever that dtype is
  int64_t kept_in_f32 = 0;          ///< bytes kept besides when that dtype is f32
  int64_t transient_bytes = 0;  ///< worked in while it runs, forward or back, if computed in f32
  std::optional<Conv2dGeometry> convolution = {};   ///< whose kernels have a workspace besides
  std::optional<AttentionGeometry> attention = {};  ///< whose scores are kept where it is unfused
  /// Whose kernels, where they say what they work in, take that in place of transient_bytes.
  std::optional<RecurrentGeometry> recurrent = {};
  bool view = false;  ///< the output is the input's memory
};

/// Says that a layer is made over another one's parameters.
struct SharedParameters {};

class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& x, const Pass& pass = {}) = 0;
  /// forward() of a value in a list of layers.
  virtual LayerValue forward_value(const LayerValue& x, const Pass& pass) {
    return {.y = forward(x.y, pass)};
  }
  /// forward(), announced to whoever observes the tape: how containers call their children.
  Tensor operator()(const Tensor& x, const Pass& pass = {}) {
    const TapeScope scope(path_);
    return forward(x, pass);
  }

  /// The layer's name in a model file: "conv2d".
  virtual std::string type() const = 0;
  /// Its settings in a few words, for summaries: "32 3x3 relu".
  virtual std::string describe() const { return {}; }
  /// Both: "conv2d 32 3x3 relu".
  std::string description() const;
  /// Shape of forward's result. Throws usage, naming the shapes, when `x` does not fit.
  virtual Shape output_shape(const Shape& x) const = 0;
  /// `x_needs_grad`: gradients flow to the input. Containers cost what their children do.
  virtual OperatorCost cost(const Shape& x, bool x_needs_grad) const;
  /// Adds the operators of a forward pass on value `x` to `plan`; returns the result's value.
  virtual int add_to(MemoryPlan& plan, int x) const;

  /// Dotted name below the root; "" for the root itself.
  const std::string& path() const { return path_; }
  /// Renames this module, everything below it and their parameters.
  void set_path(const std::string& path);

  struct Child {
    std::string name;  ///< "" adds nothing to the names of what is below
    std::shared_ptr<Module> module;
  };
  std::span<const Child> children() const { return children_; }
  /// This module's own parameters and buffers, without its children's.
  const ParameterList& own_parameters() const { return own_; }
  /// Every parameter and buffer in layer order, each once. Throws usage when two share a name.
  ParameterList parameters() const;
  /// True when the module has parameters of its own and none of them is trained now.
  bool frozen() const;

  /// Whether backward computes this container in a list of layers again from its input, see
  /// layers/recomputed_blocks.h.
  bool recomputes() const { return recomputes_; }
  void set_recompute(bool recompute) { recomputes_ = recompute; }

  /// Stops training of all parameters whose name is selected by one of the patterns, for good or
  /// (`at_first`) until ParameterArena::unfreeze(); returns how many. Throws usage when a pattern
  /// matches nothing, or once an arena exists.
  int64_t freeze(std::span<const std::string> patterns, bool at_first = false);
  /// Stops training of the parameters of normalisation layers, whose statistics stay as well (see
  /// BatchNorm); returns how many.
  int64_t freeze_norm();

 protected:
  Module(const Module& other, SharedParameters)
      : path_(other.path_), own_names_(other.own_names_), own_(other.own_) {}
  std::shared_ptr<Parameter> add_parameter(const std::string& name, const Shape& shape,
                                           ParameterRole role, Initializer initializer);
  void add_child(const std::string& name, std::shared_ptr<Module> module);

 private:
  std::string path_;
  bool recomputes_ = false;
  std::vector<Child> children_;
  std::vector<std::string> own_names_;  // beside own_: the last part of each name
  ParameterList own_;
};

/// True when `pattern` (see matches_pattern) describes a parameter's name, or a module above it:
/// `features` selects "features.0.weight".
bool selects(std::string_view pattern, std::string_view name);

/// "a.b", or the one that is not empty.
std::string join_path(const std::string& parent, const std::string& name);

}  // namespace whisker
