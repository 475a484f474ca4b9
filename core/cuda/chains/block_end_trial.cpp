#include "core/cuda/chains/block_end_trial.h"

#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/tuning/noise.h"

namespace whisker::cuda {

// The block's result stands in for the gradient of its other readers.
void CudaConvolutionChains::BlockEndTrial::prepare() {
  if (prepared_) return;
  take_operands();
  residual_.emplace(chains_.context_, chains_.allocator_, norm_.residual);
  y_ = memory_.take(x_.bytes());
  gradient_ = memory_.take(x_.bytes());
  link_.residual = residual_->data();
  link_.others = y_;
  link_.dy = memory_.take(results() * f16_bytes);
  link_.dz = memory_.take(x_.bytes());
  kernels::noise(chains_.context_.stream(), g_.dtype, 1, link_.dy, results());
  kernels::batch_norm_train(chains_.context_, chains_.allocator_, link_.norm,
                            {.x = link_.x,
                             .residual = link_.residual,
                             .y = y_,
                             .gamma = {link_.gamma, DType::f32},
                             .beta = {link_.beta, DType::f32},
                             .mean = link_.mean,
                             .inverse_deviation = link_.inverse_deviation},
                            {});
  prepared_ = true;
}

void CudaConvolutionChains::BlockEndTrial::joined() {
  prepare();
  chains_.backward_input(link_);
}

void CudaConvolutionChains::BlockEndTrial::apart() {
  prepare();
  chains_.plans_.run(chains_.request(ConvolutionPass::backward_input, g_),
                     {.x = gradient_, .w = link_.w, .y = link_.dy});
  kernels::batch_norm_backward(chains_.context_, chains_.allocator_, link_.norm, true,
                               {.x = link_.x,
                                .y = y_,
                                .dy = link_.others,
                                .more = gradient_,
                                .gamma = {link_.gamma, DType::f32},
                                .beta = {link_.beta, DType::f32},
                                .mean = link_.mean,
                                .inverse_deviation = link_.inverse_deviation,
                                .dx = link_.dx,
                                .dgamma = {link_.dgamma, DType::f32},
                                .dbeta = {link_.dbeta, DType::f32},
                                .dresidual = link_.dz});
}

}  // namespace whisker::cuda
