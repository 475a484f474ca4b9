// One optimizer update, element by element, after PyTorch's documented algorithms: torch.optim.SGD
// (Sutskever et al. 2013), Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), RMSprop
// (Hinton's lecture 6e, centered after Graves 2013).
#include "core/reference/loops.h"
#include "core/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace whisker {
namespace {

/// What the optimizer remembers of one element; which moment is what: core/optimizer_step.h.
struct Memory {
  double moment1 = 0, moment2 = 0, moment3 = 0;
};

/// The value after one step; `g` is the gradient after scaling, clipping and L2 decay.
double updated(const OptimizerStep& s, double rate, double value, double g, Memory& m) {
  switch (s.kind) {
    case OptimizerKind::sgd: {
      if (s.momentum == 0) return value - rate * g;
      m.moment1 = s.step == 1 ? g : s.momentum * m.moment1 + g;
      return value - rate * (s.nesterov ? g + s.momentum * m.moment1 : m.moment1);
    }
    case OptimizerKind::adam:
    case OptimizerKind::adamw: {
      m.moment1 = s.beta1 * m.moment1 + (1 - s.beta1) * g;
      m.moment2 = s.beta2 * m.moment2 + (1 - s.beta2) * g * g;
      const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(s.step));
      const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(s.step));
      const double deviation = std::sqrt(m.moment2) / std::sqrt(correction2) + s.epsilon;
      return value - rate / correction1 * m.moment1 / deviation;
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
      m.moment1 = s.step == 1 ? scaled : s.momentum * m.moment1 + scaled;
      return value - rate * m.moment1;
    }
  }
  return value;
}

}  // namespace

void ReferenceBackend::optimizer_step(const OptimizerStep& s) {
  visit_real("optimizer_step", s.value.dtype(), [&]<class T>() {
    constexpr int64_t block_elements = 256 / static_cast<int64_t>(sizeof(T));
    T* value = elements<T>(s.value);                                       // (count)
    const T* gradient = elements<T>(s.gradient);                           // (count)
    T* const moments[] = {elements<T>(s.moment1), elements<T>(s.moment2),  // (count) or null
                          elements<T>(s.moment3)};
    const uint8_t* group_of_block = elements<uint8_t>(s.block_group);  // (blocks)
    for (int64_t i = 0; i < s.value.count(); ++i) {
      const OptimizerGroup& group = s.groups[group_of_block[i / block_elements]];
      double x = value[i];
      double g = double{gradient[i]} * s.gradient_scale;
      if (s.clip_value > 0) g = std::clamp(g, -s.clip_value, s.clip_value);
      if (s.decoupled_decay || s.kind == OptimizerKind::adamw) {
        x *= 1 - group.learning_rate * group.weight_decay;
      } else {
        g += group.weight_decay * x;
      }
      Memory memory;
      double* const remembered[] = {&memory.moment1, &memory.moment2, &memory.moment3};
      for (size_t k = 0; k < 3; ++k) {
        if (moments[k]) *remembered[k] = double{moments[k][i]};
      }
      value[i] = convert<T>(updated(s, group.learning_rate, x, g, memory));
      for (size_t k = 0; k < 3; ++k) {
        if (moments[k]) moments[k][i] = convert<T>(*remembered[k]);
      }
    }
  });
}

void ReferenceBackend::norm(const Tensor& x, const Tensor& y) {
  visit_real("norm", x.dtype(), [&]<class T>() {
    double sum = 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      sum += double{elements<T>(x)[i]} * double{elements<T>(x)[i]};
    }
    elements<double>(y)[0] = std::sqrt(sum);
  });
}

void ReferenceBackend::moving_average(double decay, const Tensor& value, const Tensor& average) {
  visit_real("moving_average", value.dtype(), [&]<class T>() {
    T* sum = elements<T>(average);  // (count)
    for (int64_t i = 0; i < value.count(); ++i) {
      sum[i] = convert<T>(decay * double{sum[i]} + (1 - decay) * double{elements<T>(value)[i]});
    }
  });
}

void ReferenceBackend::swap(const Tensor& a, const Tensor& b) {
  visit(a.dtype(), [&]<class T>() {
    std::swap_ranges(elements<T>(a), elements<T>(a) + a.count(), elements<T>(b));
  });
}

}  // namespace whisker
