// Inverted dropout (Srivastava et al. 2014) of elements, and of a residual block's whole body
// (stochastic depth, Huang et al. 2016): active in training passes only.
#pragma once

#include "layers/module.h"

namespace whisker {

/// Masks are keyed by (pass.seed, the layer's full name, pass.step).
class Dropout final : public Module {
 public:
  /// Zeroes an element with probability `rate`. Throws usage outside [0, 1).
  explicit Dropout(double rate);
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "dropout"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override { return x; }

 private:
  double rate_;
};

/// Zeroes each example with probability `rate` and scales the others: the end of a residual block's
/// body. Not for sequences, whose examples lie along the second axis.
class DropPath final : public Module {
 public:
  /// Throws usage outside [0, 1).
  explicit DropPath(double rate);
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "drop_path"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  double rate() const { return rate_; }
  void set_rate(double rate);

 private:
  double rate_ = 0;
};

}  // namespace whisker
