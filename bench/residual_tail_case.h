// The end of a residual block and the first convolution of the next one, for bench_conv_norm: what
// timing chooses there is backward alone.
#pragma once

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <vector>

namespace whisker::bench {

class ResidualTailCase {
 public:
  /// `v`: N, SIDE, C, C_OUT, KERNEL, STRIDE, PADDING.
  ResidualTailCase(const std::vector<int64_t>& v, Device device)
      : f32_{.device = device},
        options_{.stride = v[5], .padding = v[6]},
        x_(image({v[0], v[1], v[1], v[2]}, 1)),
        residual_(image(x_.shape(), 2)),
        w_(rand_normal({v[3], v[4], v[4], v[2]}, 0, 0.05, 1, 3, f32_).to(DType::f16)),
        gamma_(ones({v[2]}, f32_)),
        beta_(zeros({v[2]}, f32_)),
        others_(image(x_.shape(), 4)) {
    for (const Tensor* leaf : {&x_, &residual_, &w_, &gamma_, &beta_}) leaf->set_requires_grad();
    const NoGrad once;
    dy_ = image(conv2d(x_, w_, {}, options_).shape(), 5);
  }

  void step() const { backward(both_of(forward(passing(x_), passing(residual_)))); }
  void look() const {
    const NoGrad only_forward;
    forward(x_, residual_);
  }
  std::vector<Tensor> results() const {
    const std::vector<Tensor> leaves{x_, residual_, w_, gamma_, beta_};
    return grad(both_of(forward(x_, residual_)), leaves);
  }
  bool fused() const { return batch_norm_conv2d_is_fused(x_, norm(residual_), w_, options_); }

 private:
  Tensor image(const Shape& shape, uint64_t stream) const {
    return rand_normal(shape, 0, 1, 1, stream, f32_).to(DType::f16);
  }
  BatchNormOperands norm(const Tensor& residual) const {
    return {.gamma = gamma_,
            .beta = beta_,
            .state = {},
            .options = {.training = true, .activation = {Activation::relu}},
            .residual = residual};
  }
  ResidualTail forward(const Tensor& x, const Tensor& residual) const {
    return batch_norm_add_conv2d(x, norm(residual), w_, options_);
  }
  /// A root that gives both results' readers' gradients, as a step would find them.
  Tensor both_of(const ResidualTail& end) const {
    const Tensor root = zeros({1}, f32_);
    record("readers", {&end.y, &end.convolved.y}, root, [others = others_, dy = dy_](Gradients& g) {
      g.accumulate_grad(0, others);
      g.accumulate_grad(1, dy);
    });
    return root;
  }
  /// `leaf` as an operator's result, whose gradient is worked out and goes no further.
  static Tensor passing(const Tensor& leaf) {
    const Tensor x = leaf.detach();
    record("passing", {&leaf}, x, [](Gradients&) {});
    return x;
  }

  TensorOptions f32_;
  Conv2dOptions options_;
  Tensor x_, residual_, w_, gamma_, beta_, others_, dy_;
};

}  // namespace whisker::bench
