// Why a gradient is what it is: the paths from the loss to a parameter, or to one element of it,
// the gradient's size at each operator of a path, and where and why it dies.
#pragma once

#include "core/trace/recording.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

class JsonWriter;

/// A gradient that is this much smaller than at the loss has vanished: common practice (Glorot and
/// Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks").
inline constexpr double vanished_gradient = 1e-3;

/// What an operator does not pass on of the gradient that arrives at it.
struct LostGradient {
  std::string cause;         ///< "dead relu": docs/guide/study.md lists the causes
  std::string reason;        ///< "slope 0"
  int64_t lost = 0, of = 0;  ///< elements of the tensor that `reason` is about; 0: not counted
  std::string_view unit = "element";
  int64_t terms = 0, of_terms = 0;  ///< of the rule, where a gradient arrives

  bool all() const { return of_terms > 0 && terms == of_terms; }
};

struct GradientHop {
  size_t entry = 0;
  /// The norm of what arrives where the parameter reaches; NaN when nothing was recorded, infinity
  /// when not all of it is finite.
  double norm = 0;
  std::vector<LostGradient> losses = {};
};

/// An operator at which a gradient arrives and nothing, or nearly nothing, goes on.
struct GradientEnd {
  size_t entry = 0;
  LostGradient loss;
  bool nearly = false;
};

struct GradientPaths {
  static constexpr size_t most_shown = 4;

  size_t parameter = 0;            ///< an entry of the recording
  std::optional<int64_t> element;  ///< row-major
  double norm = 0;                 ///< of the parameter's gradient, or of the element's
  int64_t zeros = 0, not_finite = 0, elements = 0;  ///< of its gradient
  std::optional<size_t> first_not_finite;           ///< the entry where NaN or Inf begins
  double count = 0;                                 ///< of paths
  std::vector<std::vector<GradientHop>> paths;  ///< from the loss; the first goes the strongest way
  std::vector<GradientEnd> ends;                ///< from the loss on

  /// `parameter` is a leaf or a constant of `recording`, which has values.
  static GradientPaths of(const Recording& recording, size_t parameter,
                          std::optional<int64_t> element = {});
  /// Whether all operators of the strongest way pass a gradient on, but a layer's norm at its end
  /// is below vanished_gradient of that behind the loss.
  bool vanishes() const;
  /// Lines of at most `width` columns (0: no limit).
  std::string text(const Recording& recording, size_t width) const;
  void write_json(JsonWriter& json, const Recording& recording) const;
};

/// Elements of a tensor: all of them or some.
struct ElementSet {
  bool all = false;
  std::vector<bool> some = {};

  bool any() const { return all || !some.empty(); }
  bool has(int64_t element) const { return all || (any() && some[static_cast<size_t>(element)]); }
  void add(int64_t element, const Shape& shape) {
    if (all) return;
    some.resize(static_cast<size_t>(shape.count()));
    some[static_cast<size_t>(element)] = true;
  }
};

/// What of the gradient at `entry` its operand `input` does not get at the elements `reached`.
std::vector<LostGradient> lost_gradients(const Recording& recording, const TapeEntry& entry,
                                         const TapeInput& input, const ElementSet& reached);
/// The cause where none of `losses` accounts for a gradient of 0.
LostGradient other_loss(const Recording& recording, const TapeEntry& entry, const TapeInput& input,
                        const std::vector<LostGradient>& losses);
/// The cause where of a gradient with the norm `arrives` the operand is given next to nothing.
std::optional<LostGradient> nearly_lost(const TapeEntry& entry, const TapeInput& input,
                                        const std::vector<LostGradient>& losses, double arrives,
                                        double given);

}  // namespace whisker
