#include "core/cuda/chains/link_trial.h"

namespace whisker::cuda {

void CudaConvolutionChains::LinkTrial::take_operands() {
  Context& context = chains_.context_;
  Allocator& allocator = chains_.allocator_;
  in_.emplace(context, allocator, x_);
  filter_.emplace(context, allocator, w_);
  gamma_.emplace(context, allocator, norm_.gamma);
  beta_.emplace(context, allocator, norm_.beta);
  link_ = {.convolution = g_,
           .norm = norm_.geometry,
           .x = in_->data(),
           .w = filter_->data(),
           .gamma = static_cast<float*>(gamma_->data()),
           .beta = static_cast<float*>(beta_->data()),
           .mean = memory_.take_floats(g_.c),
           .inverse_deviation = memory_.take_floats(g_.c),
           .dx = memory_.take(x_.bytes()),
           .dgamma = memory_.take_floats(g_.c),
           .dbeta = memory_.take_floats(g_.c)};
}

}  // namespace whisker::cuda
