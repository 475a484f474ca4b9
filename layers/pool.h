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
  std::string type() const override { return "adaptive_avg_pool2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;

 private:
  Pair output_;
};

/// (N,H,W,C) -> (N,C).
class GlobalAvgPool2D final : public Module {
 public:
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "global_avg_pool2d"; }
  Shape output_shape(const Shape& x) const override;
};

}  // namespace whisker
