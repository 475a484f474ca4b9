// activation(body(x) + shortcut(x)): the block of He et al. 2015 ("Deep residual learning", fig.
// 2).
#pragma once

#include "layers/batch_norm.h"
#include "layers/sequential.h"

#include <memory>

namespace whisker {

/// The shortcut is x itself, or the projection where shapes change. A batch_norm at the end of the
/// body computes add and relu in its own operator, where the device can, together with the one at
/// the projection's end.
class Residual final : public Module {
 public:
  struct Options {
    ActivationSpec activation = {Activation::relu};
    bool fuse = true;
    std::string projection_name = "projection";  ///< "" adds nothing to the names below
  };
  /// `projection` may be null. The body's layers stand directly below this module's name.
  Residual(std::shared_ptr<Sequential> body, std::shared_ptr<Sequential> projection,
           const Options& options);

  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// forward() of x.y, of which the body's first convolution may be known already. The result comes
  /// with that of the block behind, null for none, where both are one operator.
  BlockEnd forward_between(const BlockEnd& x, const Residual* next, const Pass& pass);
  std::string type() const override { return "residual"; }
  std::string describe() const override;
  /// Throws usage, naming both shapes, when body and shortcut differ.
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  int add_to(Plan& plan, int x) const override;
  /// True when the add and the activation run inside the body's last batch_norm.
  bool fused() const { return tail_ != nullptr; }

 private:
  /// What is added: still to be normalised by `norm`, unless that is null.
  struct Shortcut {
    Convolved x;
    BatchNorm* norm = nullptr;
  };
  Shortcut shortcut_of(const Tensor& x, const Pass& pass);

  Options options_;
  std::shared_ptr<Sequential> body_, projection_;
  BatchNorm* tail_ = nullptr;             // the body's last layer, when it takes the add
  BatchNorm* projection_tail_ = nullptr;  // then the projection's, when that only normalises
  Conv2D* head_ = nullptr;                // then its first layer, when that is a convolution
};

}  // namespace whisker
