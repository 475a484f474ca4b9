// Inverted dropout (Srivastava et al. 2014): active in training passes only.
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

}  // namespace whisker
