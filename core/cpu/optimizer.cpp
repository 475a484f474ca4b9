// The optimizer's one pass over the arena, block by block of 256 bytes (64 elements, one group).
// Constants are folded in f64 once per step and group; formulas as in core/reference/optimizer.cpp.
#include "core/cpu/backend_class.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/flush_denormals.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/vectorize.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace whisker::cpu {
namespace {

constexpr int64_t block_elements = 64;

/// One group's step in f32.
struct Factors {
  float rate;      // adam: divided by its bias correction
  float keep;      // multiplies the value first: decoupled decay
  float l2;        // adds l2 value to the gradient
  float scale;     // of the gradient
  float clip;      // bound of the scaled gradient, or infinity
  float momentum;  // adam: beta1; 0 at the first step, so that the gradient is taken as it is
  float fresh;     // adam: 1 - beta1; else 1
  float beta2, fresh2;
  float inverse_root;  // adam: 1 / sqrt(1 - beta2^step)
  float epsilon;
  float nesterov;  // momentum where Nesterov's form is wanted
};

float gradient_of(const Factors& f, float gradient, float value) {
  float g = gradient * f.scale;
  // This way round a NaN stays a NaN.
  g = g > f.clip ? f.clip : g;
  g = g < -f.clip ? -f.clip : g;
  return g + f.l2 * value;
}

WHISKER_VECTORIZE void sgd(const Factors& f, const float* gradient, float* value, int64_t count) {
  const Factors c = f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient_of(c, gradient[i], value[i]);
    value[i] = value[i] * c.keep - c.rate * g;
  }
}

template <bool Nesterov>
WHISKER_VECTORIZE void sgd_momentum(const Factors& f, const float* gradient, float* value,
                                    float* moment, int64_t count) {
  const Factors c = f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient_of(c, gradient[i], value[i]);
    moment[i] = (c.momentum == 0 ? 0 : c.momentum * moment[i]) + g;
    const float direction = Nesterov ? g + c.nesterov * moment[i] : moment[i];
    value[i] = value[i] * c.keep - c.rate * direction;
  }
}

WHISKER_VECTORIZE void adam(const Factors& f, const float* gradient, float* value, float* moment1,
                            float* moment2, int64_t count) {
  const Factors c = f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient_of(c, gradient[i], value[i]);
    moment1[i] = c.momentum * moment1[i] + c.fresh * g;
    moment2[i] = c.beta2 * moment2[i] + c.fresh2 * g * g;
    const float deviation = __builtin_sqrtf(moment2[i]) * c.inverse_root + c.epsilon;
    value[i] = value[i] * c.keep - c.rate * moment1[i] / deviation;
  }
}

template <bool Centered, bool Momentum>
WHISKER_VECTORIZE void rmsprop(const Factors& f, const float* gradient, float* value,
                               float* moment1, float* moment2, float* moment3, int64_t count) {
  const Factors c = f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient_of(c, gradient[i], value[i]);
    moment2[i] = c.beta2 * moment2[i] + c.fresh2 * g * g;
    float square = moment2[i];
    if constexpr (Centered) {
      moment3[i] = c.beta2 * moment3[i] + c.fresh2 * g;
      square -= moment3[i] * moment3[i];
      square = square < 0 ? 0 : square;
    }
    float direction = g / (__builtin_sqrtf(square) + c.epsilon);
    if constexpr (Momentum) {
      moment1[i] = (c.momentum == 0 ? 0 : c.momentum * moment1[i]) + direction;
      direction = moment1[i];
    }
    value[i] = value[i] * c.keep - c.rate * direction;
  }
}

/// `group`: factor of the learning rate, weight decay.
Factors factors_of(const OptimizerStep& s, const double* group) {
  const bool adaptive = s.kind == OptimizerKind::adam || s.kind == OptimizerKind::adamw;
  const bool decoupled = s.decoupled_decay || s.kind == OptimizerKind::adamw;
  const double momentum = s.state->steps == 1 ? 0 : s.momentum;
  const double rate = s.state->inputs.learning_rate * group[0];
  const auto narrow = [](double v) { return static_cast<float>(v); };
  return {.rate = narrow(adaptive ? rate / s.state->correction1 : rate),
          .keep = narrow(decoupled ? 1 - rate * group[1] : 1),
          .l2 = narrow(decoupled ? 0 : group[1]),
          .scale = narrow(s.state->gradient_factor),
          .clip = s.clip_value > 0 ? narrow(s.clip_value) : HUGE_VALF,
          .momentum = narrow(adaptive ? s.beta1 : momentum),
          .fresh = narrow(adaptive ? 1 - s.beta1 : 1),
          .beta2 = narrow(s.beta2),
          .fresh2 = narrow(1 - s.beta2),
          .inverse_root = narrow(adaptive ? 1 / std::sqrt(s.state->correction2) : 1),
          .epsilon = narrow(s.epsilon),
          .nesterov = narrow(s.nesterov ? s.momentum : 0)};
}

struct FlatMemory {
  const void* gradient;  // f32 or bf16
  float* value;
  bf16_t* compute;  // or null
  float* moment1;
  float* moment2;
  float* moment3;
};

/// `count` elements from `at` on; their gradients start at `gradient`.
void step_range(const OptimizerStep& s, const Factors& f, const FlatMemory& m, int64_t at,
                const float* gradient, int64_t count) {
  const auto from = [at](float* memory) { return memory ? memory + at : nullptr; };
  float* value = m.value + at;
  switch (s.kind) {
    case OptimizerKind::sgd:
      if (s.momentum == 0) return sgd(f, gradient, value, count);
      if (s.nesterov) return sgd_momentum<true>(f, gradient, value, from(m.moment1), count);
      return sgd_momentum<false>(f, gradient, value, from(m.moment1), count);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return adam(f, gradient, value, from(m.moment1), from(m.moment2), count);
    case OptimizerKind::rmsprop: {
      const auto run = [&]<bool Centered, bool Momentum>() {
        rmsprop<Centered, Momentum>(f, gradient, value, from(m.moment1), from(m.moment2),
                                    from(m.moment3), count);
      };
      if (s.centered && s.momentum != 0) return run.template operator()<true, true>();
      if (s.centered) return run.template operator()<true, false>();
      if (s.momentum != 0) return run.template operator()<false, true>();
      return run.template operator()<false, false>();
    }
  }
}

WHISKER_VECTORIZE void widen(const bf16_t* x, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = load(x[i]);
}

WHISKER_VECTORIZE void narrow(const float* x, bf16_t* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], x[i]);
}

/// step_range where the gradient or the compute copy is bf16: by pieces that stay in the cache.
void mixed_range(const OptimizerStep& s, const Factors& f, const FlatMemory& m, int64_t at,
                 int64_t count) {
  constexpr int64_t piece = 1024;
  std::array<float, piece> wide;
  const bool narrow_gradient = s.gradient.dtype() == DType::bf16;
  for (const int64_t end = at + count; at < end; at += piece) {
    const int64_t length = std::min(piece, end - at);
    const float* gradient = wide.data();
    if (narrow_gradient) {
      widen(static_cast<const bf16_t*>(m.gradient) + at, wide.data(), length);
    } else {
      gradient = static_cast<const float*>(m.gradient) + at;
    }
    step_range(s, f, m, at, gradient, length);
    if (m.compute) narrow(m.value + at, m.compute + at, length);
  }
}

}  // namespace

void CpuBackend::optimizer_step(const OptimizerStep& s) {
  if (!s.state->applies) return;
  const auto memory = [](const Tensor& x) { return x.defined() ? f32(x) : nullptr; };
  const FlatMemory m{
      .gradient = s.gradient.raw(),
      .value = f32(s.value),
      .compute = s.compute.defined() ? static_cast<bf16_t*>(s.compute.raw()) : nullptr,
      .moment1 = memory(s.moment1),
      .moment2 = memory(s.moment2),
      .moment3 = memory(s.moment3)};
  const uint8_t* group_of_block = static_cast<const uint8_t*>(s.block_group.raw());
  const double* groups = static_cast<const double*>(s.groups.raw());  // (groups, 2)
  std::array<Factors, 256> factors{};
  for (int64_t i = 0; i < s.groups.extent(0); ++i) {
    factors[static_cast<size_t>(i)] = factors_of(s, groups + 2 * i);
  }
  const bool plain = s.gradient.dtype() == DType::f32 && !m.compute;
  const int64_t count = s.value.count();
  const int64_t blocks = (count + block_elements - 1) / block_elements;
  parallel_ranges(blocks, rows_grain(block_elements * 4), [&](int64_t begin, int64_t end, int) {
    const FlushDenormals flush;
    for (int64_t block = begin; block < end;) {
      const uint8_t group = group_of_block[block];
      int64_t next = block + 1;
      while (next < end && group_of_block[next] == group) ++next;
      const int64_t at = block * block_elements;
      const int64_t length = std::min(next * block_elements, count) - at;
      if (plain) {
        step_range(s, factors[group], m, at, static_cast<const float*>(m.gradient) + at, length);
      } else {
        mixed_range(s, factors[group], m, at, length);
      }
      block = next;
    }
  });
}

}  // namespace whisker::cpu
