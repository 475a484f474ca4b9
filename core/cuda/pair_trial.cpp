// Every pass at the end of such a block that the two ways do not share.
#include "core/cuda/pair_trial.h"

#include "core/batch_norm_pairs.h"
#include "core/cuda/batch_norm.h"
#include "core/cuda/noise.h"

namespace whisker::cuda {

// The block's result stands in for the gradient of its other readers.
void CudaConvolutionChains::PairTrial::prepare() {
  if (prepared_) return;
  take_operands();
  const PairedNorm& norm = *norm_.residual_norm;
  projected_.emplace(chains_.context_, chains_.allocator_, norm.x);
  gamma_.emplace(chains_.context_, chains_.allocator_, norm.gamma);
  beta_.emplace(chains_.context_, chains_.allocator_, norm.beta);
  mean_ = memory_.take_floats(g_.c);
  inverse_deviation_ = memory_.take_floats(g_.c);
  gradients_ = {.dx = memory_.take(x_.bytes()),
                .dgamma = {memory_.take_floats(g_.c), DType::f32},
                .dbeta = {memory_.take_floats(g_.c), DType::f32}};
  y_ = memory_.take(x_.bytes());
  gradient_ = memory_.take(x_.bytes());
  link_.residual = memory_.take(x_.bytes());
  link_.others = y_;
  link_.dy = memory_.take(results() * f16_bytes);
  link_.dz = memory_.take(x_.bytes());
  kernels::noise(chains_.context_.stream(), g_.dtype, 1, link_.dy, results());
  prepared_ = true;
}

kernels::PairedColumns CudaConvolutionChains::PairTrial::projection() const {
  return {.x = projected_->data(),
          .gamma = {gamma_->data(), DType::f32},
          .beta = {beta_->data(), DType::f32},
          .mean = mean_,
          .inverse_deviation = inverse_deviation_};
}

kernels::PairedColumns CudaConvolutionChains::PairTrial::body() const {
  return {.x = link_.x,
          .gamma = {link_.gamma, DType::f32},
          .beta = {link_.beta, DType::f32},
          .mean = link_.mean,
          .inverse_deviation = link_.inverse_deviation};
}

void CudaConvolutionChains::PairTrial::joined() {
  prepare();
  Context& context = chains_.context_;
  Allocator& allocator = chains_.allocator_;
  const BatchNormGeometry& g = norm_.residual_norm->geometry;
  const kernels::PairedColumns other = projection(), own = body();
  kernels::batch_norm_train(context, allocator, g,
                            {.x = other.x,
                             .y = link_.residual,
                             .gamma = other.gamma,
                             .beta = other.beta,
                             .mean = mean_,
                             .inverse_deviation = inverse_deviation_},
                            {});
  kernels::batch_norm_train(context, allocator, link_.norm,
                            {.x = own.x,
                             .residual = link_.residual,
                             .y = y_,
                             .gamma = own.gamma,
                             .beta = own.beta,
                             .mean = link_.mean,
                             .inverse_deviation = link_.inverse_deviation},
                            {});
  chains_.backward_input(link_);
  kernels::batch_norm_backward(context, allocator, g, true,
                               {.x = other.x,
                                .dy = link_.dz,
                                .gamma = other.gamma,
                                .beta = other.beta,
                                .mean = mean_,
                                .inverse_deviation = inverse_deviation_,
                                .dx = gradients_.dx,
                                .dgamma = gradients_.dgamma,
                                .dbeta = gradients_.dbeta});
}

void CudaConvolutionChains::PairTrial::apart() {
  prepare();
  Context& context = chains_.context_;
  Allocator& allocator = chains_.allocator_;
  const kernels::PairedColumns other = projection(), own = body();
  kernels::batch_norm_statistics(
      context, allocator, norm_.residual_norm->geometry,
      {.x = other.x, .mean = mean_, .inverse_deviation = inverse_deviation_}, {});
  kernels::batch_norm_statistics(
      context, allocator, link_.norm,
      {.x = own.x, .mean = link_.mean, .inverse_deviation = link_.inverse_deviation}, {});
  kernels::normalise_pair(context, link_.norm, own, other, y_);
  chains_.plans_.run(chains_.request(ConvolutionPass::backward_input, g_),
                     {.x = gradient_, .w = link_.w, .y = link_.dy});
  kernels::batch_norm_pair_backward(context, allocator, link_.norm, own, other,
                                    {.dy = link_.others,
                                     .more = gradient_,
                                     .first = {.dx = link_.dx,
                                               .dgamma = {link_.dgamma, DType::f32},
                                               .dbeta = {link_.dbeta, DType::f32}},
                                     .second = gradients_});
}

}  // namespace whisker::cuda
