// The training step: counting batches, the norm of the gradients, the verdict on the update
// (core/backend/step_state.h), averages of weights, and the optimizer's one pass over the arena,
// block by block of 256 bytes (64 elements, one group). Constants are folded in f64 once per step
// and group; formulas as in core/reference/training_step.cpp.
#include "core/backend/training_step.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/flush_denormals.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/rows.h"
#include "core/cpu/support/thread_sums.h"
#include "core/vectorize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace whisker::cpu {
namespace {

template <class T>
WHISKER_VECTORIZE double squares_of(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const auto v = double{load(x[i])};
    sum += v * v;
  }
  return sum;
}

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

template <bool Momentum, bool Nesterov>
WHISKER_VECTORIZE void sgd(Factors c, const float* gradient, float* value, float* moment,
                           int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float direction = gradient_of(c, gradient[i], value[i]);
    if constexpr (Momentum) {
      moment[i] = (c.momentum == 0 ? 0 : c.momentum * moment[i]) + direction;
      direction = Nesterov ? direction + c.nesterov * moment[i] : moment[i];
    }
    value[i] = value[i] * c.keep - c.rate * direction;
  }
}

WHISKER_VECTORIZE void adam(Factors c, const float* gradient, float* value, float* moment1,
                            float* moment2, int64_t count) {
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
WHISKER_VECTORIZE void rmsprop(Factors c, const float* gradient, float* value, float* moment1,
                               float* moment2, float* moment3, int64_t count) {
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
  float *moment1, *moment2, *moment3;
};

/// `count` elements from `at` on; their gradients start at `gradient`.
void step_range(const OptimizerStep& s, const Factors& f, const FlatMemory& m, int64_t at,
                const float* gradient, int64_t count) {
  const auto from = [at](float* memory) { return memory ? memory + at : nullptr; };
  float* value = m.value + at;
  switch (s.kind) {
    case OptimizerKind::sgd:
      return visit_bool(s.momentum != 0, [&]<bool Momentum>() {
        visit_bool(s.nesterov, [&]<bool Nesterov>() {
          sgd<Momentum, Nesterov>(f, gradient, value, from(m.moment1), count);
        });
      });
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return adam(f, gradient, value, from(m.moment1), from(m.moment2), count);
    case OptimizerKind::rmsprop:
      return visit_bool(s.centered, [&]<bool Centered>() {
        visit_bool(s.momentum != 0, [&]<bool Momentum>() {
          rmsprop<Centered, Momentum>(f, gradient, value, from(m.moment1), from(m.moment2),
                                      from(m.moment3), count);
        });
      });
  }
}

/// step_range by blocks that stay in the cache, as gradient and compute copy may be bf16.
void step_blocks(const OptimizerStep& s, const Factors& f, const FlatMemory& m, int64_t at,
                 int64_t count) {
  constexpr int64_t piece = 1024;
  std::array<float, piece> wide;
  const bool narrow_gradient = s.gradient.dtype() == DType::bf16;
  for (const int64_t end = at + count; at < end; at += piece) {
    const int64_t length = std::min(piece, end - at);
    const float* gradient = wide.data();
    if (narrow_gradient) {
      map([](float v) { return v; }, wide.data(), length,
          static_cast<const bf16_t*>(m.gradient) + at);
    } else {
      gradient = static_cast<const float*>(m.gradient) + at;
    }
    step_range(s, f, m, at, gradient, length);
    if (m.compute) round_row(m.value + at, m.compute + at, length);
  }
}

class TrainingStep final : public TrainingStepKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override {
    const int64_t rows = logits.extent(0), classes = logits.extent(1);
    const float* row = f32(logits);  // (rows, classes)
    const auto* label = static_cast<const int64_t*>(count.labels.raw());
    int64_t correct = 0;
    for (int64_t r = 0; r < rows; ++r, row += classes) {
      const int64_t guess = classes == 1 ? *row > 0 : std::max_element(row, row + classes) - row;
      correct += guess == label[r];
    }
    whisker::count_batch(*count.state, count.rule,
                         {.loss = *f32(loss), .correct = correct, .rows = rows});
  }

  void add_squares(const Tensor& x, double* sum) override {
    const ThreadSums totals(allocator_, x.count(), pointwise_grain);
    visit_element("add_squares", x.dtype(), [&]<class T>() {
      const T* from = static_cast<const T*>(x.raw());
      parallel_ranges(x.count(), pointwise_grain, [&](int64_t begin, int64_t end, int thread) {
        *totals.of(thread) = squares_of(from + begin, end - begin);
      });
    });
    *sum = totals.total(0, *sum);
  }

  void begin_update(const StepRule& rule, StepState* state) override {
    whisker::begin_update(*state, rule, std::sqrt(state->square_sum));
  }

  void optimizer_step(const OptimizerStep& s) override {
    if (!in_f32("optimizer_step", s.value)) {
      fail(ErrorKind::usage,
           "optimizer_step: expected f32 master weights, got bf16. Keep the parameter arena in "
           "f32.");
    }
    in_f32("optimizer_step", s.gradient);
    if (s.compute.defined()) in_f32("optimizer_step", s.compute);
    if (!s.state->applies) return;
    const FlatMemory m{
        .gradient = s.gradient.raw(),
        .value = f32(s.value),
        .compute = s.compute.defined() ? static_cast<bf16_t*>(s.compute.raw()) : nullptr,
        .moment1 = f32_or_null(s.moment1),
        .moment2 = f32_or_null(s.moment2),
        .moment3 = f32_or_null(s.moment3)};
    const uint8_t* group_of_block = static_cast<const uint8_t*>(s.block_group.raw());
    const double* groups = static_cast<const double*>(s.groups.raw());  // (groups, 2)
    std::array<Factors, 256> factors{};
    for (int64_t i = 0; i < s.groups.extent(0); ++i) {
      factors[static_cast<size_t>(i)] = factors_of(s, groups + 2 * i);
    }
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
        step_blocks(s, factors[group], m, at, length);
        block = next;
      }
    });
  }

  void moving_average(const AverageStep& step) override {
    if (step.applies && !*step.applies) return;
    ViaF32 t(device_.backend, "moving_average", step.value);
    const double decay = average_decay(step.decay, step.warmup, ++*step.updates);
    const float* from = f32(t.in(step.value));
    float* to = f32(t.in_out(step.average));
    const auto keep = static_cast<float>(decay), fresh = static_cast<float>(1 - decay);
    parallel_ranges(step.value.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
      const FlushDenormals flush;
      map([=](float average, float value) { return keep * average + fresh * value; }, to + begin,
          end - begin, to + begin, from + begin);
    });
  }

  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override {
    if (*condition && bytes > 0) std::memcpy(target, source, static_cast<size_t>(bytes));
  }

  void swap(const Tensor& a, const Tensor& b) override {
    char* left = static_cast<char*>(a.raw());
    char* right = static_cast<char*>(b.raw());
    parallel_ranges(a.bytes(), pointwise_grain * 4, [&](int64_t begin, int64_t end, int) {
      std::swap_ranges(left + begin, left + end, right + begin);
    });
  }
};

}  // namespace

std::shared_ptr<TrainingStepKernels> make_training_step(CpuDevice& device) {
  return std::make_shared<TrainingStep>(device);
}

}  // namespace whisker::cpu
