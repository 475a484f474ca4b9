// One training step, recorded once: operators, parameters and inputs, what each keeps for backward,
// values forward and backward. Lists, images, the stepper and files are views of it.
#pragma once

#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor_statistics.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class Tensor;

/// Tensors of at most so many elements are recorded with all values.
inline constexpr int64_t most_recorded_values = 4096;

/// A tensor's contents at one moment: all of them, or their statistics; neither when not recorded.
struct RecordedValues {
  std::vector<double> all = {};  ///< row-major
  std::optional<TensorStatistics> statistics = {};
  /// One element of a large tensor, while its step is recorded; null in a finished recording.
  std::function<double(int64_t)> read = {};

  /// All of at most `most` elements.
  static RecordedValues of(const Tensor& x, int64_t most = most_recorded_values);
  bool known() const { return !all.empty() || statistics; }
  bool readable() const { return !all.empty() || read; }
  /// NaN where it is not known.
  double at(int64_t element) const {
    if (element >= 0 && element < std::ssize(all)) return all[static_cast<size_t>(element)];
    return read && element >= 0 ? read(element) : std::numeric_limits<double>::quiet_NaN();
  }
  TensorStatistics summary() const { return statistics ? *statistics : TensorStatistics::of(all); }
};

/// How many positions of x's last axis are 0 in all rows.
int64_t zero_units(const Tensor& x);

/// A tensor kept for backward.
struct TapeSaved {
  std::string what;  ///< "input", "output", a name, or "workspace"
  Shape shape;
  DType dtype = DType::f32;
  int64_t bytes = 0;  ///< memory that only this keeps alive: 0 for parameters and repetitions
  RecordedValues value = {};  ///< of a workspace of few elements
};

enum class TapeKind : uint8_t {
  op,
  leaf,      ///< a tensor that gradients accumulate into
  constant,  ///< an operand that wants no gradient and that no listed operator made
};
inline constexpr std::string_view tape_kind_names[] = {"op", "leaf", "constant"};

/// An operand: an output of an earlier entry.
struct TapeInput {
  size_t entry = 0;
  size_t output = 0;
  size_t position = 0;       ///< among the operator's operands, absent ones counted
  std::string example = {};  ///< of a large operator, as TapeEntry::example: of its gradient
};

struct TapeOutput {
  Shape shape;
  DType dtype = DType::f32;
  RecordedValues value = {};
  RecordedValues gradient = {};  ///< d(root)/d(this), complete
  /// How many positions of the last axis are 0 everywhere; of a recorded relu or relu6 alone.
  std::optional<int64_t> zero_units = {};
};

/// What an operand's gradient was once an operator's backward had run.
struct GivenGradient {
  size_t input = 0;   ///< index into TapeEntry::inputs
  bool first = true;  ///< nothing had arrived there before
  RecordedValues sum = {};
};

/// One operator, leaf or constant.
struct TapeEntry {
  TapeKind kind = TapeKind::op;
  std::string name;             ///< the operator's, or that of the leaf or constant
  std::string layer = {};       ///< dotted name; "" outside of layers
  std::string attributes = {};  ///< "stride 2 2, groups 1": see describe_op()
  std::vector<TapeInput> inputs = {};
  std::vector<TapeOutput> outputs = {};  ///< one at least
  bool recorded = true;                  ///< false when no input wanted a gradient
  std::vector<TapeSaved> saved = {};
  int number = 0;         ///< operators count from 1 in the order they ran
  double forward_ms = 0;  ///< since the operator before it, or its layer's begin
  int backward_step = 0;  ///< from 1; 0 when backward did not visit it
  double backward_ms = 0;
  std::vector<GivenGradient> given =
      {};  ///< by this operator's backward, to tensors of few elements
  /// One element with its numbers, where an operator has large tensors, or why there is none.
  std::string example = {};

  const Shape& shape() const { return outputs[0].shape; }
  DType dtype() const { return outputs[0].dtype; }
  /// Euclidean norm of d(root)/d(first output); NaN when not recorded.
  double gradient_norm() const {
    const RecordedValues& gradient = outputs[0].gradient;
    return gradient.known() ? gradient.summary().norm : std::numeric_limits<double>::quiet_NaN();
  }
  /// Bytes that only this entry keeps for backward; 0 where it is recomputed.
  int64_t saved_bytes() const;
  bool on_tape() const { return kind == TapeKind::op && recorded; }
  /// Whether backward runs its block again (core/autograd/recompute.h): it keeps nothing before.
  bool recomputed() const { return has_attribute("recomputed"); }
  /// The numbers of an attribute: of "stride" 2 and 2; empty when there is none.
  std::vector<double> attribute(std::string_view attribute_name) const;
  bool has_attribute(std::string_view attribute_name) const;
};

/// An operator that stands for a recomputed block, behind the block's own: those on the tape from
/// first_recomputed() on.
inline constexpr std::string_view recompute_name = "recompute";
size_t first_recomputed(std::span<const TapeEntry> entries, size_t recompute);

/// What a device reached in a large matrix product and in a copy of large memory.
struct Ceilings {
  double tflops = 0;       ///< 1e12 floating-point operations per second
  double gb_per_s = 0;     ///< 1e9 bytes read or written per second
  double overhead_ms = 0;  ///< of an operator on one element
};

struct Recording {
  std::string title;  ///< "keras_small, (32,64,64,3) f32 on cpu, 2 classes"
  /// All that leads to a recorded operator, in topological order. Other operators (running
  /// statistics, the labels' cast) are left out, unless nothing was recorded.
  std::vector<TapeEntry> entries;
  int beside = 0;  ///< operators that were left out
  double beside_ms = 0;
  std::optional<Ceilings> ceilings = {};  ///< of the device, in the step's precision

  /// Entries that backward visited, in its order.
  std::vector<size_t> backward_order() const;
  /// "3 relu", or the name of a leaf or constant.
  std::string label(size_t entry) const;
};

}  // namespace whisker
