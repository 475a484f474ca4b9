// Batch normalisation per channel (Ioffe and Szegedy 2015), with a residual add and an activation
// in the same operator.
#pragma once

#include "layers/activation.h"

namespace whisker {

/// Weights and bias of a layer and the batch_norm behind it as one.
struct FoldedWeights {
  Tensor weight, bias;  ///< undefined: not folded
};

/// weight (gamma), bias (beta), running_mean and running_var, all (channels). A frozen layer
/// (neither weight nor bias is trained) normalises with its stored statistics and never updates
/// them.
class BatchNorm final : public Module {
 public:
  struct Options {
    int64_t channels = 0;
    double momentum = 0.1;  ///< weight of the new batch: PyTorch's meaning, 1 - Keras'
    double epsilon = 1e-5;
    ActivationSpec activation = {};
    /// Channels of the image that a flatten before this layer laid out; 0: none.
    int64_t flattened_channels = 0;
    double initial_weight = 1;  ///< 0 makes a residual branch start as nothing
  };
  /// Throws usage for channels below 1, momentum outside [0, 1] or epsilon not above 0.
  explicit BatchNorm(const Options& options);
  BatchNorm(const BatchNorm& other, SharedParameters shared)
      : Module(other, shared),
        options_(other.options_),
        weight_(other.weight_),
        bias_(other.bias_),
        running_mean_(other.running_mean_),
        running_var_(other.running_var_) {}

  /// x (..., channels) -> the same shape. In training the new statistics wait as pending buffers.
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// With the statistics of x.sums where they are defined.
  LayerValue forward_value(const LayerValue& x, const Pass& pass) override;
  /// What the operator takes besides x. `sums`: of x, or undefined.
  BatchNormOperands operands(const Tensor& sums, const Pass& pass) const;
  /// What a layer needs in place of its f32 weights w (channels, ...) and b (channels) or undefined
  /// to compute this one, in evaluation, on top of itself (Jacob et al. 2018, section 3.2):
  /// w' = w gamma / sqrt(var + epsilon), b' = beta + (b - mean) gamma / sqrt(var + epsilon).
  FoldedWeights fold(const Tensor& w, const Tensor& b, DType dtype) const;
  /// True when such a pass normalises with the batch's own statistics.
  bool uses_batch(const Pass& pass) const { return pass.training && !frozen(); }
  std::string type() const override { return "batch_norm"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

  const Options& options() const { return options_; }
  void set_activation(ActivationSpec activation) { options_.activation = activation; }

 private:
  Options options_;
  std::shared_ptr<Parameter> weight_, bias_, running_mean_, running_var_;
};

}  // namespace whisker
