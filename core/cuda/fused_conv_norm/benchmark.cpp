#include "core/cuda/fused_conv_norm/benchmark.h"

#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda {

CudaFusedConvNorm::Benchmark::Benchmark(CudaFusedConvNorm& owner, const Conv2dGeometry& g,
                                        const TrainingNorm& norm, const Tensor& w)
    : owner_(owner),
      in_(owner.context_, owner.allocator_, norm.x),
      filter_(owner.context_, owner.allocator_, w),
      gamma_(owner.context_, owner.allocator_, norm.gamma),
      beta_(owner.context_, owner.allocator_, norm.beta),
      x_bytes_(norm.x.bytes()) {
  operands_ = {.convolution = g,
               .norm = norm.geometry,
               .x = in_.data(),
               .w = filter_.data(),
               .gamma = static_cast<float*>(gamma_.data()),
               .beta = static_cast<float*>(beta_.data()),
               .mean = memory_.take_floats(g.c),
               .inv_std = memory_.take_floats(g.c),
               .dy = memory_.take(g.n * g.h_out * g.w_out * g.c_out * f16_bytes),
               .dx = as_x(),
               .dgamma = memory_.take_floats(g.c),
               .dbeta = memory_.take_floats(g.c)};
}

// `gradient` names what only one of the benchmarks has.
void CudaFusedConvNorm::Benchmark::batch_norm_backward(const kernels::BatchNormGradient& gradient) {
  kernels::BatchNormGradient all = gradient;
  all.x = operands_.x;
  all.gamma = {operands_.gamma, DType::f32};
  all.beta = {operands_.beta, DType::f32};
  all.mean = operands_.mean;
  all.inv_std = operands_.inv_std;
  all.dx = operands_.dx;
  all.dgamma = {operands_.dgamma, DType::f32};
  all.dbeta = {operands_.dbeta, DType::f32};
  kernels::batch_norm_backward(owner_.context_, owner_.allocator_, operands_.norm, all);
}

CudaFusedConvNorm::ConvNormBenchmark::ConvNormBenchmark(CudaFusedConvNorm& owner,
                                                        const Conv2dGeometry& g,
                                                        const TrainingNorm& norm, const Tensor& w)
    : Benchmark(owner, g, norm, w), z_(as_x()), dz_(as_x()) {
  operands_.y = operands_.dy;
  operands_.sums = memory_.take_floats(2 * g.c_out);
  operands_.folded = memory_.take(2 * g.c * f16_bytes);
  operands_.dw = memory_.take(w.bytes());
  statistics_ = {.x = operands_.x,
                 .y = z_,
                 .gamma = {operands_.gamma, DType::f32},
                 .beta = {operands_.beta, DType::f32},
                 .sums = f32(norm.sums),
                 .mean = operands_.mean,
                 .inv_std = operands_.inv_std,
                 .variance = memory_.take_floats(g.c)};
}

void CudaFusedConvNorm::ConvNormBenchmark::fused() {
  kernels::batch_norm_statistics(owner_.context_, owner_.allocator_, operands_.norm, statistics_,
                                 {});
  owner_.forward(operands_);
  owner_.backward_input(operands_);
  owner_.backward_weights(operands_);
}

void CudaFusedConvNorm::ConvNormBenchmark::unfused() {
  Context& context = owner_.context_;
  Allocator& allocator = owner_.allocator_;
  ConvAlgorithms& plans = owner_.algorithms_;
  const Conv2dGeometry& g = operands_.convolution;
  if (statistics_.sums) {
    kernels::batch_norm_statistics(context, allocator, operands_.norm, statistics_, {});
    kernels::batch_norm_inference(context, operands_.norm, statistics_);
  } else {
    kernels::batch_norm_train(context, allocator, operands_.norm, statistics_, {});
  }
  const ConvolutionOperands forward{
      .x = z_, .w = operands_.w, .y = operands_.y, .sums = operands_.sums};
  if (!owner_.convolve(g, forward)) {
    plans.run(owner_.request(ConvolutionPass::forward, g), forward);
    owner_.pass_over_result(g, operands_.y);
  }
  plans.run(owner_.request(ConvolutionPass::backward_weights, g),
            {.x = z_, .w = operands_.dw, .y = operands_.dy});
  plans.run(owner_.request(ConvolutionPass::backward_input, g),
            {.x = dz_, .w = operands_.w, .y = operands_.dy});
  batch_norm_backward({.y = z_, .dy = dz_});
}

// The block's result stands in for the gradient of its other readers.
CudaFusedConvNorm::ResidualTailBenchmark::ResidualTailBenchmark(CudaFusedConvNorm& owner,
                                                                const Conv2dGeometry& g,
                                                                const TrainingNorm& norm,
                                                                const Tensor& w)
    : Benchmark(owner, g, norm, w),
      residual_(owner.context_, owner.allocator_, norm.residual),
      y_(as_x()),
      gradient_(as_x()) {
  operands_.residual = residual_.data();
  operands_.others = y_;
  operands_.dz = as_x();
  kernels::noise(owner.context_.stream(), g.dtype, 1, operands_.dy,
                 g.n * g.h_out * g.w_out * g.c_out);
  kernels::batch_norm_train(owner.context_, owner.allocator_, operands_.norm,
                            {.x = operands_.x,
                             .residual = operands_.residual,
                             .y = y_,
                             .gamma = {operands_.gamma, DType::f32},
                             .beta = {operands_.beta, DType::f32},
                             .mean = operands_.mean,
                             .inv_std = operands_.inv_std},
                            {});
}

void CudaFusedConvNorm::ResidualTailBenchmark::fused() {
  owner_.backward_input(operands_);
}

void CudaFusedConvNorm::ResidualTailBenchmark::unfused() {
  owner_.algorithms_.run(owner_.request(ConvolutionPass::backward_input, operands_.convolution),
                         {.x = gradient_, .w = operands_.w, .y = operands_.dy});
  batch_norm_backward(
      {.y = y_, .dy = operands_.others, .more = gradient_, .dresidual = operands_.dz});
}

}  // namespace whisker::cuda
