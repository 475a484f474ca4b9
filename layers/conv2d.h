// Two-dimensional convolution over (N,H,W,C), with bias, activation and max-pooling in the same
// operator.
#pragma once

#include "layers/batch_norm.h"
#include "layers/initializers.h"

namespace whisker {

/// weight (filters, kernel_h, kernel_w, in_channels / groups), bias (filters).
class Conv2D final : public Module {
 public:
  struct Options {
    int64_t in_channels = 0;
    int64_t filters = 0;
    Pair kernel = 3;
    Pair stride = 1;
    Pair padding = 0;  ///< on both sides, for PaddingMode::number
    PaddingMode padding_mode = PaddingMode::number;
    Pair dilation = 1;
    int64_t groups = 1;
    bool bias = true;
    ActivationSpec activation = {};
    std::optional<Pool2dOptions> max_pool = {};  ///< of the activated result
    InitializerSpec weight_initializer = {};
    InitializerSpec bias_initializer = {};
  };

  /// Throws usage for channel counts below 1 or not divisible by the groups.
  explicit Conv2D(const Options& options);
  Conv2D(const Conv2D& other, SharedParameters shared)
      : Module(other, shared),
        options_(other.options_),
        weight_(other.weight_),
        bias_(other.bias_) {}

  /// x (N,H,W,in_channels) -> (N,h_out,w_out,filters), of the windows where it pools.
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// forward() with `residual`, shaped as its result, added before the activation.
  Tensor forward_add(const Tensor& x, const Tensor& residual);
  /// Computes `norm` as well from now on, in evaluation, with the parameters' present values.
  void fold(const BatchNorm& norm, DType dtype);
  bool is_folded() const { return folded_.weight.defined(); }
  /// forward(), with the sums of the result for a batch_norm behind it where this device takes
  /// them.
  Convolved forward_with_sums(const Tensor& x);
  /// True when a batch_norm before this layer may be computed in it: it adds and pools nothing.
  bool is_bare() const;
  /// True where forward_normalised() is one operator.
  bool takes_norm(const Tensor& x, const BatchNormOperands& norm) const;
  /// forward_with_sums() of what `norm` makes of x.
  Convolved forward_normalised(const Tensor& x, const BatchNormOperands& norm);
  std::string type() const override { return "conv2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

  const Options& options() const { return options_; }
  void set_activation(ActivationSpec activation) { options_.activation = activation; }
  void set_max_pool(const Pool2dOptions& pool) { options_.max_pool = pool; }
  /// The convolution's geometry for images x of `dtype`.
  Conv2dGeometry geometry(const Shape& x, DType dtype = DType::f32) const;

  const std::shared_ptr<Parameter>& weight() const { return weight_; }
  const std::shared_ptr<Parameter>& bias() const { return bias_; }  ///< null without one

 private:
  Conv2dOptions operator_options() const;
  Shape convolved_shape(const Shape& x) const;  // before pooling

  Options options_;
  std::shared_ptr<Parameter> weight_, bias_;
  FoldedWeights folded_;
};

}  // namespace whisker
