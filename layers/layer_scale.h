// A trained factor per channel, near zero at first, before the addition of a residual block
// (Touvron et al. 2021, "Going deeper with image transformers").
#pragma once

#include "layers/module.h"

#include <memory>
#include <string>

namespace whisker {

/// (N,...,C) times a parameter that has the layer's name and shape (C,1,1), as torchvision's.
class LayerScale final : public Module {
 public:
  struct Options {
    int64_t channels = 0;
    double initial = 1e-6;
  };
  explicit LayerScale(const Options& options);
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "layer_scale"; }
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

 private:
  Options options_;
  std::shared_ptr<Parameter> scale_;
};

}  // namespace whisker
