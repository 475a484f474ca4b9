// Layer normalisation over the last axis (Ba, Kiros and Hinton 2016).
#pragma once

#include "layers/module.h"

namespace whisker {

/// weight (gamma) and bias (beta), both (features).
class LayerNorm final : public Module {
 public:
  struct Options {
    int64_t features = 0;
    double epsilon = 1e-5;
    /// Channels of the image that a flatten before this layer laid out; 0: none.
    int64_t flattened_channels = 0;
  };
  /// Throws usage for features below 1 or epsilon not above 0.
  explicit LayerNorm(const Options& options);

  /// x (..., features) -> the same shape.
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "layer_norm"; }
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  const Options& options() const { return options_; }

 private:
  Options options_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace whisker
