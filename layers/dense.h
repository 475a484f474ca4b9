// The fully connected layer, with bias and activation in the same operator.
#pragma once

#include "core/ops/ops.h"
#include "layers/batch_norm.h"
#include "layers/initializers.h"

namespace whisker {

/// weight (units, in_features), bias (units).
class Dense final : public Module {
 public:
  struct Options {
    int64_t in_features = 0;
    int64_t units = 0;
    bool bias = true;
    ActivationSpec activation = {};
    InitializerSpec weight_initializer = {};
    InitializerSpec bias_initializer = {};
    /// Channels of the image that a flatten before this layer laid out (see Parameter); 0: none.
    int64_t flattened_channels = 0;
  };

  /// Throws usage for extents below 1.
  explicit Dense(const Options& options);
  Dense(const Dense& other, SharedParameters shared)
      : Module(other, shared),
        options_(other.options_),
        weight_(other.weight_),
        bias_(other.bias_) {}

  /// x (..., in_features) -> (..., units).
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// Computes `norm` as well from now on, in evaluation, with the parameters' present values.
  void fold(const BatchNorm& norm, DType dtype);
  bool is_folded() const { return folded_.weight.defined(); }
  std::string type() const override { return "dense"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

  const Options& options() const { return options_; }
  void set_activation(ActivationSpec activation) { options_.activation = activation; }
  const std::shared_ptr<Parameter>& weight() const { return weight_; }
  const std::shared_ptr<Parameter>& bias() const { return bias_; }  ///< null without one

 private:
  Options options_;
  std::shared_ptr<Parameter> weight_, bias_;
  FoldedWeights folded_;
};

}  // namespace whisker
