#include "core/cuda/block_end_trial.h"

#include "core/cuda/batch_norm.h"
#include "core/cuda/noise.h"

namespace whisker::cuda {

// The block's result stands in for the gradient of its other readers.
void CudaConvolutionChains::BlockEndTrial::prepare() {
  if (link_.x) return;
  Context& context = chains_.context_;
  Allocator& allocator = chains_.allocator_;
  in_.emplace(context, allocator, x_);
  filter_.emplace(context, allocator, w_);
  gamma_.emplace(context, allocator, norm_.gamma);
  beta_.emplace(context, allocator, norm_.beta);
  residual_.emplace(context, allocator, norm_.residual);
  const int64_t results = g_.n * g_.h_out * g_.w_out * g_.c_out;
  void* const dy = memory_.take(results * f16_bytes);
  kernels::noise(context.stream(), g_.dtype, 1, dy, results);
  y_ = memory_.take(x_.bytes());
  gradient_ = memory_.take(x_.bytes());
  link_ = {.convolution = g_,
           .norm = norm_.geometry,
           .x = in_->data(),
           .w = filter_->data(),
           .gamma = static_cast<float*>(gamma_->data()),
           .beta = static_cast<float*>(beta_->data()),
           .mean = memory_.take_floats(g_.c),
           .inverse_deviation = memory_.take_floats(g_.c),
           .residual = residual_->data(),
           .others = y_,
           .dy = dy,
           .dx = memory_.take(x_.bytes()),
           .dz = memory_.take(x_.bytes()),
           .dgamma = memory_.take_floats(g_.c),
           .dbeta = memory_.take_floats(g_.c)};
  kernels::batch_norm_train(context, allocator, link_.norm,
                            {.x = link_.x,
                             .residual = link_.residual,
                             .y = y_,
                             .gamma = {link_.gamma, DType::f32},
                             .beta = {link_.beta, DType::f32},
                             .mean = link_.mean,
                             .inverse_deviation = link_.inverse_deviation},
                            {});
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
