// The optimizer's kernels: one pass over values, moments and compute copies. Rates and all else
// that changes from step to step are read from device memory.
#pragma once

#include "core/backend/optimizer_step.h"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/operand.h"
#include "core/error.h"

namespace whisker::cuda {

struct OptimizerUpdate : BasicOptimizerStep<Operand> {
  int64_t count = 0;
};
/// Throws internal where value or moments are not f32, or where a tensor is not aligned to 16
/// bytes.
inline OptimizerUpdate update_of(const OptimizerStep& s) {
  for (const Tensor* x : {&s.value, &s.moment1, &s.moment2, &s.moment3}) f32(*x);
  for (const Tensor* x : {&s.value, &s.gradient, &s.compute, &s.moment1, &s.moment2, &s.moment3}) {
    if (x->defined() && !is_aligned(x->raw())) {
      fail(ErrorKind::internal, "optimizer: expected tensors at multiples of 16 bytes");
    }
  }
  return {s.map(operand), s.value.count()};
}

/// OptimizerUpdate's numbers in f32, and the rates of one group of parameters.
struct Rates {
  float rate, decay, decay_step;    // learning rate; L2 factor; decoupled decay times rate
  float corrected_rate, deviation;  // adam: rate / correction1, 1 / sqrt(correction2)
  float factor, clip;
  float momentum, beta1, beta2, epsilon, rest1, rest2;  // rest: 1 - beta
  bool first;
};

__device__ inline Rates rates_of(const OptimizerUpdate& u, int group) {
  const StepState& s = *u.state;
  const auto* const groups = u.groups.as<const double>();  // (groups, 2)
  const double rate = s.inputs.learning_rate * groups[2 * group];
  const double decay = groups[2 * group + 1];
  const bool decoupled = u.decoupled_decay || u.kind == OptimizerKind::adamw;
  return {.rate = static_cast<float>(rate),
          .decay = decoupled ? 0.0f : static_cast<float>(decay),
          .decay_step = decoupled ? static_cast<float>(rate * decay) : 0.0f,
          .corrected_rate = static_cast<float>(rate / s.correction1),
          .deviation = static_cast<float>(1 / sqrt(s.correction2)),
          .factor = static_cast<float>(s.gradient_factor),
          .clip = static_cast<float>(u.clip_value),
          .momentum = static_cast<float>(u.momentum),
          .beta1 = static_cast<float>(u.beta1),
          .beta2 = static_cast<float>(u.beta2),
          .epsilon = static_cast<float>(u.epsilon),
          .rest1 = static_cast<float>(1 - u.beta1),
          .rest2 = static_cast<float>(1 - u.beta2),
          .first = s.steps == 1};
}

/// The value after one step; m are this element's moments. Formulas:
/// core/reference/training_step.cpp.
__device__ inline float updated(const OptimizerUpdate& u, const Rates& r, float value,
                                float gradient, float (&m)[3]) {
  float g = gradient * r.factor;
  if (r.clip > 0) g = g < -r.clip ? -r.clip : g > r.clip ? r.clip : g;
  value = fmaf(-r.decay_step, value, value);
  g = fmaf(r.decay, value, g);
  switch (u.kind) {
    case OptimizerKind::sgd:
      if (r.momentum == 0) return fmaf(-r.rate, g, value);
      m[0] = r.first ? g : fmaf(r.momentum, m[0], g);
      return fmaf(-r.rate, u.nesterov ? fmaf(r.momentum, m[0], g) : m[0], value);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      m[0] = fmaf(r.beta1, m[0], r.rest1 * g);
      m[1] = fmaf(r.beta2, m[1], r.rest2 * g * g);
      return value - r.corrected_rate * m[0] / fmaf(sqrtf(m[1]), r.deviation, r.epsilon);
    case OptimizerKind::rmsprop: {
      m[1] = fmaf(r.beta2, m[1], r.rest2 * g * g);
      float square = m[1];
      if (u.centered) {
        m[2] = fmaf(r.beta2, m[2], r.rest2 * g);
        square = fmaxf(square - m[2] * m[2], 0.0f);
      }
      const float scaled = g / (sqrtf(square) + r.epsilon);
      if (r.momentum == 0) return fmaf(-r.rate, scaled, value);
      m[0] = r.first ? scaled : fmaf(r.momentum, m[0], scaled);
      return fmaf(-r.rate, m[0], value);
    }
  }
  return value;
}

/// N neighbours, all of one 256-byte block of the arena and so of one group.
template <class G, int N>
__device__ void update_pack(const OptimizerUpdate& u, const Rates& rates, int64_t pack) {
  using Floats = Pack<float, N>;
  Floats value = u.value.as<const Floats>()[pack];
  const auto gradient = u.gradient.as<const Pack<G, N>>()[pack];
  Floats* const moments_at[] = {u.moment1.as<Floats>(), u.moment2.as<Floats>(),
                                u.moment3.as<Floats>()};
  Floats moments[3] = {};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (moments_at[i]) moments[i] = moments_at[i][pack];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    float m[3] = {moments[0].at[k], moments[1].at[k], moments[2].at[k]};
    value.at[k] = updated(u, rates, value.at[k], to_f32(gradient.at[k]), m);
#pragma unroll
    for (int i = 0; i < 3; ++i) moments[i].at[k] = m[i];
  }
  u.value.as<Floats>()[pack] = value;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (moments_at[i]) moments_at[i][pack] = moments[i];
  }
  if (!u.compute.data) return;
  if (u.compute.dtype == DType::bf16) {
    u.compute.as<Pack<bfloat_t, N>>()[pack] = rounded<bfloat_t>(value.at);
  } else {
    u.compute.as<Pack<half_t, N>>()[pack] = rounded<half_t>(value.at);
  }
}

/// One block of `blocks`; G: the gradient's type. Runs of an arena begin at multiples of 256 bytes.
template <class G>
__device__ void update_run(const OptimizerUpdate& u, unsigned block, unsigned blocks) {
  constexpr int N = pack_size<float>;
  if (!u.state->applies) return;
  const int64_t first = int64_t{block} * block_threads + threadIdx.x;
  // Adjacent blocks mostly have the same group: its rates are computed once, in f64.
  int group = -1;
  Rates rates;
  const auto rates_at = [&](int64_t element) -> const Rates& {
    const int wanted = u.block_group.as<const uint8_t>()[element / 64];
    if (wanted != group) rates = rates_of(u, wanted);
    group = wanted;
    return rates;
  };
  const int64_t packs = u.count / N;
  for (int64_t p = first; p < packs; p += int64_t{blocks} * block_threads) {
    update_pack<G, N>(u, rates_at(p * N), p);
  }
  const int64_t rest = packs * N + first;
  if (rest < u.count) update_pack<G, 1>(u, rates_at(rest), rest);
}

/// Two ranges of parameters; blocks from `first_blocks` on compute the second, with f32 gradients.
template <class G>
__global__ void __launch_bounds__(block_threads)
    optimizer_kernel(OptimizerUpdate first, OptimizerUpdate second, unsigned first_blocks) {
  wait_for_previous();
  if (blockIdx.x < first_blocks) {
    update_run<G>(first, blockIdx.x, first_blocks);
  } else {
    update_run<float>(second, blockIdx.x - first_blocks, gridDim.x - first_blocks);
  }
}

}  // namespace whisker::cuda
