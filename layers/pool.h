// Pooling over (N,H,W,C).
#pragma once

#include "core/ops.h"
#include "layers/module.h"

namespace whisker {

/// Windows; padding never wins a maximum.
class MaxPool2D final : public Module {
 public:
  using Options = Pool2dOptions;
  explicit MaxPool2D(const Options& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "max_pool2d"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

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
