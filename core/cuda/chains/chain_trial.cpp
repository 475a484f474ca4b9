#include "core/cuda/chains/chain_trial.h"

#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/summed_statistics.h"

namespace whisker::cuda {

void CudaConvolutionChains::Trial::prepare() {
  if (prepared_) return;
  take_operands();
  link_.y = memory_.take(results() * f16_bytes);
  link_.sums = memory_.take_floats(2 * g_.c_out);
  link_.folded = memory_.take(2 * g_.c * f16_bytes);
  link_.dy = link_.y;
  link_.dw = memory_.take(w_.bytes());
  variance_ = memory_.take_floats(g_.c);
  z_ = memory_.take(x_.bytes());
  dz_ = memory_.take(x_.bytes());
  prepared_ = true;
}

void CudaConvolutionChains::Trial::find_statistics() {
  if (sums_.defined()) {
    kernels::statistics_of_sums(chains_.context_, link_.norm,
                                {.sums = f32(sums_),
                                 .mean = link_.mean,
                                 .variance = variance_,
                                 .inverse_deviation = link_.inverse_deviation},
                                {});
  } else {
    kernels::batch_norm_statistics(
        chains_.context_, chains_.allocator_, link_.norm,
        {.x = link_.x, .mean = link_.mean, .inverse_deviation = link_.inverse_deviation}, {});
  }
}

void CudaConvolutionChains::Trial::joined() {
  prepare();
  find_statistics();
  chains_.forward(link_);
  chains_.backward_input(link_);
  chains_.backward_weights(link_);
}

void CudaConvolutionChains::Trial::apart() {
  prepare();
  Context& context = chains_.context_;
  Allocator& allocator = chains_.allocator_;
  ConvolutionPlans& plans = chains_.plans_;
  const Channels gamma{link_.gamma, DType::f32}, beta{link_.beta, DType::f32};
  kernels::BatchNorm norm{.x = link_.x,
                          .y = z_,
                          .gamma = gamma,
                          .beta = beta,
                          .mean = link_.mean,
                          .inverse_deviation = link_.inverse_deviation};
  if (sums_.defined()) {
    find_statistics();
    norm.variance = variance_;
    kernels::batch_norm_inference(context, link_.norm, norm);
  } else {
    kernels::batch_norm_train(context, allocator, link_.norm, norm, {});
  }
  const ConvolutionOperands forward{.x = z_, .w = link_.w, .y = link_.y, .sums = link_.sums};
  if (!chains_.convolve(g_, forward)) {
    plans.run(chains_.request(ConvolutionPass::forward, g_), forward);
    chains_.pass_over_result(g_, link_.y);
  }
  plans.run(chains_.request(ConvolutionPass::backward_weights, g_),
            {.x = z_, .w = link_.dw, .y = link_.dy});
  plans.run(chains_.request(ConvolutionPass::backward_input, g_),
            {.x = dz_, .w = link_.w, .y = link_.dy});
  kernels::batch_norm_backward(context, allocator, link_.norm, true,
                               {.x = link_.x,
                                .y = z_,
                                .dy = dz_,
                                .gamma = gamma,
                                .beta = beta,
                                .mean = link_.mean,
                                .inverse_deviation = link_.inverse_deviation,
                                .dx = link_.dx,
                                .dgamma = {link_.dgamma, DType::f32},
                                .dbeta = {link_.dbeta, DType::f32}});
}

}  // namespace whisker::cuda
