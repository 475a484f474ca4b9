// Pooling over (N,H,W,C).
#pragma once

#include "core/ops/ops.h"
#include "layers/module.h"

namespace whisker {

/// "2x2", "3x3 /2": the settings of a pooling in a few words.
std::string describe_windows(const Pool2dOptions& options);
/// The shape that pooling leaves of `x`. Throws usage when no window fits.
Shape pooled_shape(PoolKind kind, const Shape& x, const Pool2dOptions& options);
/// What a max-pooling keeps for backward per output: the argmax of its window.
inline constexpr int64_t pool_argmax_bytes = 1;

/// Windows; padding is never the maximum.
class MaxPool2D final : public Module {
 public:
  using Options = Pool2dOptions;
  explicit MaxPool2D(const Options& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "max_pool2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  const Options& options() const { return options_; }

 private:
  Options options_;
};

class AvgPool2D final : public Module {
 public:
  using Options = Pool2dOptions;
  explicit AvgPool2D(const Options& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "avg_pool2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  const Options& options() const { return options_; }

 private:
  Options options_;
};

/// (N,H,W,C) -> (N,h,w,C) for any H and W.
class AdaptiveAvgPool2D final : public Module {
 public:
  explicit AdaptiveAvgPool2D(Pair output) : output_(output) {}
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  Pair output() const { return output_; }
  std::string type() const override { return "adaptive_avg_pool2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;

 private:
  Pair output_;
};

/// (N,H,W,C) -> (N,C): the largest of each channel. Equal ones share the gradient.
class GlobalMaxPool2D final : public Module {
 public:
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "global_max_pool2d"; }
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
};

/// Binomial blur, then every stride-th position (Zhang 2019, "Making convolutional networks
/// shift-invariant again"), with the image reflected at its edges.
class BlurPool2D final : public Module {
 public:
  struct Options {
    int64_t kernel = 3;  ///< 2 to 7; 3 is (1 2 1) / 4 along both axes
    int64_t stride = 2;
  };
  /// Throws usage outside these ranges.
  explicit BlurPool2D(const Options& options);
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "blur_pool2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  const Options& options() const { return options_; }

 private:
  const Tensor& filters(const Tensor& x);
  Options options_;
  Tensor filters_;  // (C, kernel, kernel, 1), constant
};

/// (N,H,W,C) -> (N,C).
class GlobalAvgPool2D final : public Module {
 public:
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "global_avg_pool2d"; }
  Shape output_shape(const Shape& x) const override;
};

}  // namespace whisker
