#include "core/cuda/fused_conv_norm/benchmark.h"

#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda {

void CudaFusedConvNorm::Benchmark::take_operands() {
  Context& context = owner_.context_;
  Allocator& allocator = owner_.allocator_;
  in_.emplace(context, allocator, norm_.x);
  filter_.emplace(context, allocator, w_);
  gamma_.emplace(context, allocator, norm_.gamma);
  beta_.emplace(context, allocator, norm_.beta);
  operands_ = {.convolution = g_,
               .norm = norm_.geometry,
               .x = in_->data(),
               .w = filter_->data(),
               .gamma = static_cast<float*>(gamma_->data()),
               .beta = static_cast<float*>(beta_->data()),
               .mean = memory_.take_floats(g_.c),
               .inv_std = memory_.take_floats(g_.c),
               .dx = memory_.take(norm_.x.bytes()),
               .dgamma = memory_.take_floats(g_.c),
               .dbeta = memory_.take_floats(g_.c)};
}

void CudaFusedConvNorm::ConvNormBenchmark::prepare() {
  if (prepared_) return;
  take_operands();
  operands_.y = memory_.take(results() * f16_bytes);
  operands_.sums = memory_.take_floats(2 * g_.c_out);
  operands_.folded = memory_.take(2 * g_.c * f16_bytes);
  operands_.dy = operands_.y;
  operands_.dw = memory_.take(w_.bytes());
  variance_ = memory_.take_floats(g_.c);
  z_ = memory_.take(norm_.x.bytes());
  dz_ = memory_.take(norm_.x.bytes());
  prepared_ = true;
}

void CudaFusedConvNorm::ConvNormBenchmark::find_statistics() {
  if (norm_.sums.defined()) {
    kernels::statistics_of_sums(owner_.context_, operands_.norm,
                                {.sums = f32(norm_.sums),
                                 .mean = operands_.mean,
                                 .variance = variance_,
                                 .inv_std = operands_.inv_std},
                                {});
  } else {
    kernels::batch_norm_statistics(
        owner_.context_, owner_.allocator_, operands_.norm,
        {.x = operands_.x, .mean = operands_.mean, .inv_std = operands_.inv_std}, {});
  }
}

void CudaFusedConvNorm::ConvNormBenchmark::fused() {
  prepare();
  find_statistics();
  owner_.forward(operands_);
  owner_.backward_input(operands_);
  owner_.backward_weights(operands_);
}

void CudaFusedConvNorm::ConvNormBenchmark::unfused() {
  prepare();
  Context& context = owner_.context_;
  Allocator& allocator = owner_.allocator_;
  ConvAlgorithms& plans = owner_.algorithms_;
  const Channels gamma{operands_.gamma, DType::f32}, beta{operands_.beta, DType::f32};
  kernels::BatchNorm norm{.x = operands_.x,
                          .y = z_,
                          .gamma = gamma,
                          .beta = beta,
                          .mean = operands_.mean,
                          .inv_std = operands_.inv_std};
  if (norm_.sums.defined()) {
    find_statistics();
    norm.variance = variance_;
    kernels::batch_norm_inference(context, operands_.norm, norm);
  } else {
    kernels::batch_norm_train(context, allocator, operands_.norm, norm, {});
  }
  const ConvolutionOperands forward{
      .x = z_, .w = operands_.w, .y = operands_.y, .sums = operands_.sums};
  if (!owner_.convolve(g_, forward)) {
    plans.run(owner_.request(ConvolutionPass::forward, g_), forward);
    owner_.pass_over_result(g_, operands_.y);
  }
  plans.run(owner_.request(ConvolutionPass::backward_weights, g_),
            {.x = z_, .w = operands_.dw, .y = operands_.dy});
  plans.run(owner_.request(ConvolutionPass::backward_input, g_),
            {.x = dz_, .w = operands_.w, .y = operands_.dy});
  kernels::batch_norm_backward(context, allocator, operands_.norm, true,
                               {.x = operands_.x,
                                .y = z_,
                                .dy = dz_,
                                .gamma = gamma,
                                .beta = beta,
                                .mean = operands_.mean,
                                .inv_std = operands_.inv_std,
                                .dx = operands_.dx,
                                .dgamma = {operands_.dgamma, DType::f32},
                                .dbeta = {operands_.dbeta, DType::f32}});
}

// The block's result stands in for the gradient of its other readers.
void CudaFusedConvNorm::ResidualTailBenchmark::prepare() {
  if (prepared_) return;
  take_operands();
  residual_.emplace(owner_.context_, owner_.allocator_, norm_.residual);
  y_ = memory_.take(norm_.x.bytes());
  gradient_ = memory_.take(norm_.x.bytes());
  operands_.residual = residual_->data();
  operands_.others = y_;
  operands_.dy = memory_.take(results() * f16_bytes);
  operands_.dz = memory_.take(norm_.x.bytes());
  kernels::noise(owner_.context_.stream(), g_.dtype, 1, operands_.dy, results());
  kernels::batch_norm_train(owner_.context_, owner_.allocator_, operands_.norm,
                            {.x = operands_.x,
                             .residual = operands_.residual,
                             .y = y_,
                             .gamma = {operands_.gamma, DType::f32},
                             .beta = {operands_.beta, DType::f32},
                             .mean = operands_.mean,
                             .inv_std = operands_.inv_std},
                            {});
  prepared_ = true;
}

void CudaFusedConvNorm::ResidualTailBenchmark::fused() {
  prepare();
  owner_.backward_input(operands_);
}

void CudaFusedConvNorm::ResidualTailBenchmark::unfused() {
  prepare();
  owner_.algorithms_.run(owner_.request(ConvolutionPass::backward_input, g_),
                         {.x = gradient_, .w = operands_.w, .y = operands_.dy});
  kernels::batch_norm_backward(owner_.context_, owner_.allocator_, operands_.norm, true,
                               {.x = operands_.x,
                                .y = y_,
                                .dy = operands_.others,
                                .more = gradient_,
                                .gamma = {operands_.gamma, DType::f32},
                                .beta = {operands_.beta, DType::f32},
                                .mean = operands_.mean,
                                .inv_std = operands_.inv_std,
                                .dx = operands_.dx,
                                .dgamma = {operands_.dgamma, DType::f32},
                                .dbeta = {operands_.dbeta, DType::f32},
                                .dresidual = operands_.dz});
}

}  // namespace whisker::cuda
