// A forward pass worked out from shapes alone: which operators run on which values, what backward
// keeps and what is alive when. Nothing is allocated; summaries and memory predictions read it.
#pragma once

#include "layers/module.h"

#include <cstdint>
#include <vector>

namespace whisker {

/// One operator of a planned pass. Values are indices into Plan::values().
struct PlannedOperator {
  const Module* layer = nullptr;
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

class Plan {
 public:
  /// A pass of `model` over an input of shape `x`. Throws usage where a layer does not fit.
  static Plan of(const Module& model, const Shape& x);

  /// The input, and what a container's add_to() needs.
  int add_input(const Shape& shape);
  int add(const Module& layer, std::vector<int> inputs, const Shape& output,
          const OperatorCost& cost);
  const Shape& shape(int value) const { return values_[static_cast<size_t>(value)].shape; }
  bool needs_grad(int value) const { return values_[static_cast<size_t>(value)].needs_grad; }

  const std::vector<PlannedOperator>& operators() const { return operators_; }
  const std::vector<PlannedValue>& values() const { return values_; }

  int64_t multiply_adds() const;
  /// Kept for backward: distinct tensors once, plus what operators keep besides.
  int64_t kept_bytes() const;
  /// The most alive at once in a pass that keeps nothing (inference).
  int64_t peak_bytes() const;
  /// The largest gradients of one operator in backward: of its output and its inputs.
  int64_t gradient_bytes() const;

 private:
  std::vector<PlannedOperator> operators_;
  std::vector<PlannedValue> values_;
};

}  // namespace whisker
