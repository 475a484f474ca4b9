// Group normalisation of each example (Wu and He 2018).
#pragma once

#include "layers/module.h"

namespace whisker {

/// weight (gamma) and bias (beta), both (channels).
class GroupNorm final : public Module {
 public:
  struct Options {
    int64_t channels = 0;
    int64_t groups = 32;  ///< of adjacent channels
    double epsilon = 1e-5;
  };
  /// Throws usage for groups that do not divide the channels, or epsilon not above 0.
  explicit GroupNorm(const Options& options);

  /// x (N, H, W, channels) or (N, channels) -> the same shape.
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "group_norm"; }
  std::string describe() const override;
  /// Refuses sequences (T, N, channels): their first axis is not that of the examples.
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  const Options& options() const { return options_; }

 private:
  Options options_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace whisker
