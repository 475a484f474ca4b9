// The training step: counting batches, the norm of the gradients, the verdict on the update
// (core/backend/step_state.h), averages of weights, and one optimizer update, element by element,
// after PyTorch's documented algorithms: torch.optim.SGD (Sutskever et al. 2013), Adam (Kingma and
// Ba 2015), AdamW (Loshchilov and Hutter 2019), RMSprop (Hinton's lecture 6e, centered after Graves
// 2013).
#include "core/backend/training_step.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace whisker::reference {
namespace {

/// What the optimizer remembers of one element; which moment is what:
/// core/backend/optimizer_step.h.
struct Memory {
  double moment1 = 0, moment2 = 0, moment3 = 0;
};

/// The value after one step; `g` is the gradient after scaling, clipping and L2 decay.
double updated(const OptimizerStep& s, double rate, double value, double g, Memory& m) {
  const bool first = s.state->steps == 1;
  switch (s.kind) {
    case OptimizerKind::sgd: {
      if (s.momentum == 0) return value - rate * g;
      m.moment1 = first ? g : s.momentum * m.moment1 + g;
      return value - rate * (s.nesterov ? g + s.momentum * m.moment1 : m.moment1);
    }
    case OptimizerKind::adam:
    case OptimizerKind::adamw: {
      m.moment1 = s.beta1 * m.moment1 + (1 - s.beta1) * g;
      m.moment2 = s.beta2 * m.moment2 + (1 - s.beta2) * g * g;
      const double deviation = std::sqrt(m.moment2) / std::sqrt(s.state->correction2) + s.epsilon;
      return value - rate / s.state->correction1 * m.moment1 / deviation;
    }
    case OptimizerKind::rmsprop: {
      m.moment2 = s.beta2 * m.moment2 + (1 - s.beta2) * g * g;
      double square = m.moment2;
      if (s.centered) {
        m.moment3 = s.beta2 * m.moment3 + (1 - s.beta2) * g;
        square -= m.moment3 * m.moment3;
      }
      const double scaled = g / (std::sqrt(std::max(square, 0.0)) + s.epsilon);
      if (s.momentum == 0) return value - rate * scaled;
      m.moment1 = first ? scaled : s.momentum * m.moment1 + scaled;
      return value - rate * m.moment1;
    }
  }
  return value;
}

/// The elements of a flat floating tensor of any type.
std::vector<double> values_of(const Tensor& x) {
  std::vector<double> values(static_cast<size_t>(x.count()));
  visit(x.dtype(), [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = convert<double>(elements<T>(x)[i]);
  });
  return values;
}

class TrainingStep final : public TrainingStepKernels {
 public:
  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override {
    visit_real("count_batch", logits.dtype(), [&]<class T>() {
      const int64_t rows = logits.extent(0), classes = logits.extent(1);
      int64_t correct = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = elements<T>(logits) + r * classes;  // (rows, classes)
        const int64_t guess =
            classes == 1 ? row[0] > 0 : std::max_element(row, row + classes) - row;
        correct += guess == elements<int64_t>(count.labels)[r];
      }
      whisker::count_batch(*count.state, count.rule,
                           {.loss = elements<T>(loss)[0], .correct = correct, .rows = rows});
    });
  }

  void add_squares(const Tensor& x, double* sum) override {
    visit(x.dtype(), [&]<class T>() {
      for (int64_t i = 0; i < x.count(); ++i) {
        const auto value = convert<double>(elements<T>(x)[i]);
        *sum += value * value;
      }
    });
  }

  void begin_update(const StepRule& rule, StepState* state) override {
    whisker::begin_update(*state, rule, std::sqrt(state->square_sum));
  }

  void optimizer_step(const OptimizerStep& s) override {
    if (!s.state->applies) return;
    const double* groups = elements<double>(s.groups);                 // (groups, 2)
    const uint8_t* group_of_block = elements<uint8_t>(s.block_group);  // (blocks)
    const std::vector<double> gradient = values_of(s.gradient);        // (count)
    visit_real("optimizer_step", s.value.dtype(), [&]<class T>() {
      constexpr int64_t block_elements = 256 / static_cast<int64_t>(sizeof(T));
      T* value = elements<T>(s.value);                                       // (count)
      T* const moments[] = {elements<T>(s.moment1), elements<T>(s.moment2),  // (count) or null
                            elements<T>(s.moment3)};
      for (int64_t i = 0; i < s.value.count(); ++i) {
        const double* group = groups + 2 * group_of_block[i / block_elements];
        const double rate = s.state->inputs.learning_rate * group[0];
        double x = value[i];
        double g = gradient[static_cast<size_t>(i)] * s.state->gradient_factor;
        if (s.clip_value > 0) g = std::clamp(g, -s.clip_value, s.clip_value);
        if (s.decoupled_decay || s.kind == OptimizerKind::adamw) {
          x *= 1 - rate * group[1];
        } else {
          g += group[1] * x;
        }
        Memory memory;
        double* const remembered[] = {&memory.moment1, &memory.moment2, &memory.moment3};
        for (size_t k = 0; k < 3; ++k) {
          if (moments[k]) *remembered[k] = double{moments[k][i]};
        }
        value[i] = convert<T>(updated(s, rate, x, g, memory));
        for (size_t k = 0; k < 3; ++k) {
          if (moments[k]) moments[k][i] = convert<T>(*remembered[k]);
        }
      }
    });
    if (!s.compute.defined()) return;
    const std::vector<double> value = values_of(s.value);
    visit(s.compute.dtype(), [&]<class T>() {
      std::transform(value.begin(), value.end(), elements<T>(s.compute), convert<T, double>);
    });
  }

  void moving_average(const AverageStep& step) override {
    if (step.applies && !*step.applies) return;
    const double decay = average_decay(step.decay, step.warmup, ++*step.updates);
    visit_real("moving_average", step.value.dtype(), [&]<class T>() {
      T* sum = elements<T>(step.average);  // (count)
      for (int64_t i = 0; i < step.value.count(); ++i) {
        sum[i] =
            convert<T>(decay * double{sum[i]} + (1 - decay) * double{elements<T>(step.value)[i]});
      }
    });
  }

  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override {
    if (*condition && bytes > 0) std::memcpy(target, source, static_cast<size_t>(bytes));
  }

  void swap(const Tensor& a, const Tensor& b) override {
    visit(a.dtype(), [&]<class T>() {
      std::swap_ranges(elements<T>(a), elements<T>(a) + a.count(), elements<T>(b));
    });
  }
};

}  // namespace

std::shared_ptr<TrainingStepKernels> make_training_step() {
  return std::make_shared<TrainingStep>();
}

}  // namespace whisker::reference
