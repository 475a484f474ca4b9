// The optimizer's one pass over the arena, block by block of 256 bytes (64 elements, one group).
// Constants are folded in f64 once per step and group; formulas as in core/reference/optimizer.cpp.
#include "core/cpu/backend_class.h"
#include "core/cpu/flush_denormals.h"
#include "core/cpu/parallel.h"
#include "core/cpu/vectorize.h"

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

Factors factors_of(const OptimizerStep& s, const OptimizerGroup& group) {
  const bool adaptive = s.kind == OptimizerKind::adam || s.kind == OptimizerKind::adamw;
  const bool decoupled = s.decoupled_decay || s.kind == OptimizerKind::adamw;
  const auto step = static_cast<double>(s.step);
  const double momentum = s.step == 1 ? 0 : s.momentum;
  const auto narrow = [](double v) { return static_cast<float>(v); };
  return {.rate = narrow(adaptive ? group.learning_rate / (1 - std::pow(s.beta1, step))
                                  : group.learning_rate),
          .keep = narrow(decoupled ? 1 - group.learning_rate * group.weight_decay : 1),
          .l2 = narrow(decoupled ? 0 : group.weight_decay),
          .scale = narrow(s.gradient_scale),
          .clip = s.clip_value > 0 ? narrow(s.clip_value) : HUGE_VALF,
          .momentum = narrow(adaptive ? s.beta1 : momentum),
          .fresh = narrow(adaptive ? 1 - s.beta1 : 1),
          .beta2 = narrow(s.beta2),
          .fresh2 = narrow(1 - s.beta2),
          .inverse_root = narrow(1 / std::sqrt(1 - std::pow(s.beta2, step))),
          .epsilon = narrow(s.epsilon),
          .nesterov = narrow(s.nesterov ? s.momentum : 0)};
}

struct StepMemory {
  const float* gradient;
  float* value;
  float* moment1;
  float* moment2;
  float* moment3;
};

void step_range(const OptimizerStep& s, const Factors& f, const StepMemory& m, int64_t at,
                int64_t count) {
  const auto from = [at](float* memory) { return memory ? memory + at : nullptr; };
  const float* gradient = m.gradient + at;
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

WHISKER_VECTORIZE double squares_of(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const auto v = static_cast<double>(x[i]);
    sum += v * v;
  }
  return sum;
}

WHISKER_VECTORIZE void average_range(float decay, float fresh, const float* value, float* average,
                                     int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) average[i] = decay * average[i] + fresh * value[i];
}

}  // namespace

void CpuBackend::optimizer_step(const OptimizerStep& s) {
  const auto memory = [](const Tensor& x) { return x.defined() ? f32(x) : nullptr; };
  const StepMemory m{.gradient = f32(s.gradient),
                     .value = f32(s.value),
                     .moment1 = memory(s.moment1),
                     .moment2 = memory(s.moment2),
                     .moment3 = memory(s.moment3)};
  const uint8_t* group_of_block = static_cast<const uint8_t*>(s.block_group.raw());
  std::array<Factors, 256> factors{};
  for (size_t i = 0; i < s.groups.size(); ++i) factors[i] = factors_of(s, s.groups[i]);
  const int64_t count = s.value.count();
  const int64_t blocks = (count + block_elements - 1) / block_elements;
  parallel_ranges(blocks, rows_grain(block_elements * 4), [&](int64_t begin, int64_t end, int) {
    const FlushDenormals flush;
    for (int64_t block = begin; block < end;) {
      const uint8_t group = group_of_block[block];
      int64_t next = block + 1;
      while (next < end && group_of_block[next] == group) ++next;
      const int64_t at = block * block_elements;
      step_range(s, factors[group], m, at, std::min(next * block_elements, count) - at);
      block = next;
    }
  });
}

void CpuBackend::norm(const Tensor& x, const Tensor& y) {
  const float* from = f32(x);
  const int team = team_size(x.count(), pointwise_grain);
  const Scratch<double> totals = scratch<double>(team);
  std::fill_n(totals.data(), team, 0.0);
  parallel_ranges(x.count(), pointwise_grain, [&](int64_t begin, int64_t end, int thread) {
    totals[thread] = squares_of(from + begin, end - begin);
  });
  double total = 0;
  for (int t = 0; t < team; ++t) total += totals[t];
  static_cast<double*>(y.raw())[0] = std::sqrt(total);
}

void CpuBackend::moving_average(double decay, const Tensor& value, const Tensor& average) {
  const float* from = f32(value);
  float* to = f32(average);
  parallel_ranges(value.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
    const FlushDenormals flush;
    average_range(static_cast<float>(decay), static_cast<float>(1 - decay), from + begin,
                  to + begin, end - begin);
  });
}

void CpuBackend::swap(const Tensor& a, const Tensor& b) {
  char* left = static_cast<char*>(a.raw());
  char* right = static_cast<char*>(b.raw());
  parallel_ranges(a.bytes(), pointwise_grain * 4, [&](int64_t begin, int64_t end, int) {
    std::swap_ranges(left + begin, left + end, right + begin);
  });
}

}  // namespace whisker::cpu
