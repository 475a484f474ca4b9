// A loss written as a formula in the operators' own names, and the tensors that it names, for
// `whisker study -e` and the built-in networks.
#pragma once

#include "core/tensor/tensor.h"
#include "core/trace/step_recorder.h"

#include <string>
#include <vector>

namespace whisker {

struct NamedFormula {
  std::string name, text;
};

class Expression {
 public:
  struct Options {
    TensorOptions tensor = {};  ///< of floating values
    uint64_t seed = 0;          ///< of randn() and rand()
  };

  /// Throws usage, with the place, for a formula that does not parse, a binding that is none, a
  /// name that is not bound, and a bound name that the formula does not use.
  Expression(const std::string& formula, const std::vector<NamedFormula>& bindings,
             const Options& options);

  /// Throws usage, with the place, for what the operators refuse, for a loss of several
  /// elements, and on the tape for one without a gradient.
  Tensor loss() const;
  /// Computes the loss and its gradients.
  void run(StepObserver& recorder) const;
  /// "mean((x @ w - y)^2), f32 on cpu".
  std::string describe() const;
  /// Names that get a gradient.
  const std::vector<std::string>& leaves() const { return leaves_; }
  /// All names with their values.
  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }

 private:
  std::string formula_;
  Options options_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::vector<std::string> leaves_;
};

/// "x='[[1,2]]'" as a binding; throws usage for anything else.
NamedFormula binding_of(const std::string& text);

}  // namespace whisker
