// activation(body(x) + shortcut(x)): the block of He et al. 2015 ("Deep residual learning", fig.
// 2).
#pragma once

#include "layers/batch_norm.h"
#include "layers/sequential.h"

#include <memory>

namespace whisker {

/// The shortcut is x itself, or the projection where shapes change. A list of layers adds in the
/// body's last batch_norm where it can (layers/fusion.h).
class Residual final : public Module {
 public:
  struct Options {
    ActivationSpec activation = {Activation::relu};
    std::string projection_name = "projection";  ///< "" adds nothing to the names below
  };
  /// `projection` may be null. The body's layers stand directly below this module's name.
  Residual(std::shared_ptr<Sequential> body, std::shared_ptr<Sequential> projection,
           const Options& options);

  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// The projection of x, or x.
  Tensor shortcut(const Tensor& x, const Pass& pass);
  /// The body's first `count` layers.
  LayerValue run_body(size_t count, const Tensor& x, const Pass& pass);
  std::string type() const override { return "residual"; }
  std::string describe() const override;
  /// Throws usage, naming both shapes, when body and shortcut differ.
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  int add_to(MemoryPlan& plan, int x) const override;

  const Options& options() const { return options_; }
  Sequential& body() const { return *body_; }
  Sequential* projection() const { return projection_.get(); }  ///< null without one

 private:
  Options options_;
  std::shared_ptr<Sequential> body_, projection_;
};

}  // namespace whisker
