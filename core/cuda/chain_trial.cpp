#include "core/cuda/chain_trial.h"

#include "core/cuda/chain_norm.h"
#include "core/cuda/operand.h"

namespace whisker::cuda {

void CudaConvolutionChains::Trial::prepare() {
  if (memory_) return;
  Context& context = chains_.context_;
  Allocator& allocator = chains_.allocator_;
  in_.emplace(context, allocator, x_);
  filter_.emplace(context, allocator, w_);
  gamma_.emplace(context, allocator, norm_.gamma);
  beta_.emplace(context, allocator, norm_.beta);
  const int64_t vector_bytes = g_.c * int64_t{sizeof(float)};
  const int64_t result_bytes =
      g_.n * g_.h_out * g_.w_out * g_.c_out * static_cast<int64_t>(size_of(g_.dtype));
  int64_t total = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t at = total;
    total += (bytes + 255) / 256 * 256;
    return at;
  };
  const int64_t z = place(x_.bytes()), dz = place(x_.bytes()), dx = place(x_.bytes());
  const int64_t y = place(result_bytes), sums = place(2 * g_.c_out * int64_t{sizeof(float)});
  const int64_t dw = place(w_.bytes()), folded = place(vector_bytes);
  const int64_t mean = place(vector_bytes), variance = place(vector_bytes);
  const int64_t inverse_deviation = place(vector_bytes);
  const int64_t dgamma = place(vector_bytes), dbeta = place(vector_bytes);
  memory_.emplace(total);
  auto* const base = static_cast<std::byte*>(memory_->data());
  const auto vector = [&](int64_t at) { return reinterpret_cast<float*>(base + at); };
  z_ = base + z;
  dz_ = base + dz;
  variance_ = vector(variance);
  link_ = {.convolution = g_,
           .norm = norm_.geometry,
           .x = in_->data(),
           .w = filter_->data(),
           .y = base + y,
           .sums = vector(sums),
           .gamma = static_cast<float*>(gamma_->data()),
           .beta = static_cast<float*>(beta_->data()),
           .mean = vector(mean),
           .inverse_deviation = vector(inverse_deviation),
           .folded = base + folded,
           .dy = base + y,
           .dx = base + dx,
           .dw = base + dw,
           .dgamma = vector(dgamma),
           .dbeta = vector(dbeta)};
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
  chains_.backward(link_);
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
