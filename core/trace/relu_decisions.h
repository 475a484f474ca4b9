// What relus decide next to 0, where rounding alone tells two steps apart. A gradient of such an
// element is dy on one side and 0 on the other, and so is what it gives to all layers before it.
#pragma once

#include "core/tensor/tensor.h"
#include "core/trace/recording.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// Compares two recorded steps, A and then B: where an element of a relu is 0 on one side alone and
/// next to 0 on the other, B takes A's value before anything reads it. Next to 0: at most twice the
/// largest difference of two elements of the tensor that are 0 on neither side, or one unit of
/// rounding of its largest, and at most `tolerance` units (nullopt: usual_tolerance()). Relus are
/// matched by layer, name and shape, in the order in which they ran.
class ReluDecisions {
 public:
  explicit ReluDecisions(std::optional<double> tolerance) : tolerance_(tolerance) {}

  void begin_b() { of_b_ = true; }
  /// To be called for every relu before others read `output`; B's may change.
  void see(const TapeEntry& entry, const Tensor& output);

  int64_t elements() const { return elements_; }  ///< B's, of relus that A has, too
  int64_t changed() const { return changed_; }

 private:
  std::optional<double> tolerance_;
  bool of_b_ = false;
  std::map<std::string, std::vector<Tensor>> seen_;  // by layer, name and shape, until B has it
  std::map<std::string, size_t> next_;               // B's
  int64_t elements_ = 0, changed_ = 0;
};

}  // namespace whisker
