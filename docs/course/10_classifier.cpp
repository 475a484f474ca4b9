// Lesson 10: from autograd to a trained classifier: two spirals, a network of two layers, Adam.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
constexpr int64_t points = 120, units = 32;

struct Data {
  Tensor x;       // (points, 2)
  Tensor labels;  // (points), 0 or 1
};

// Two arms of a spiral, one a half turn ahead of the other, with some noise.
Data spirals(uint64_t seed) {
  const std::vector<double> noise = rand_normal({points, 2}, 0, 0.05, seed, 1, exact).to_vector();
  std::vector<double> x, labels;
  for (int64_t i = 0; i < points; ++i) {
    const double along = static_cast<double>(i / 2) / (points / 2.0),
                 arm = static_cast<double>(i % 2);
    const double angle = (3 * along + arm) * std::numbers::pi, radius = 0.2 + along;
    x.push_back(radius * std::cos(angle) + noise[static_cast<size_t>(2 * i)]);
    x.push_back(radius * std::sin(angle) + noise[static_cast<size_t>(2 * i + 1)]);
    labels.push_back(arm);
  }
  return {from_vector(x, {points, 2}, exact),
          from_vector(labels, {points}, {.dtype = DType::i64, .device = reference_device})};
}

// Adam's moments of one parameter (exercise adam_step).
struct Parameter {
  Tensor w, m, v;
  explicit Parameter(const Tensor& value)
      : w(value.set_requires_grad()), m(zeros(value.shape(), exact)), v(m) {}
  void step(double lr, int count) {
    const NoGrad off;
    const Tensor g = w.grad();
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * (g * g);
    const Tensor m_hat = m * (1 / (1 - std::pow(0.9, count)));
    const Tensor v_hat = v * (1 / (1 - std::pow(0.999, count)));
    w.copy_(w - m_hat / (sqrt(v_hat) + 1e-8) * lr);
    w.zero_grad();
  }
};

double accuracy(const Tensor& logits, const Tensor& labels) {
  return mean(cast(equal(argmax(logits), labels), DType::f64)).item();
}

}  // namespace

int main() {
  const Data train = spirals(1), test = spirals(2);
  std::vector<Parameter> p;
  p.emplace_back(rand_normal({units, 2}, 0, 1, 3, 1, exact));                        // w1
  p.emplace_back(zeros({units}, exact));                                             // b1
  p.emplace_back(rand_normal({units, units}, 0, 1 / std::sqrt(32.0), 3, 2, exact));  // w2
  p.emplace_back(zeros({units}, exact));                                             // b2
  p.emplace_back(rand_normal({2, units}, 0, 1 / std::sqrt(32.0), 3, 3, exact));      // w3
  p.emplace_back(zeros({2}, exact));                                                 // b3
  const auto network = [&p](const Tensor& x) {
    const Tensor h = tanh(linear(x, p[0].w, p[1].w));
    return linear(tanh(linear(h, p[2].w, p[3].w)), p[4].w, p[5].w);
  };

  std::printf("step   loss    accuracy   of test points\n");
  for (int step = 1; step <= 400; ++step) {
    const Tensor logits = network(train.x);
    const Tensor loss = cross_entropy(logits, train.labels);
    backward(loss);
    for (Parameter& one : p) one.step(0.01, step);
    if (step != 1 && step % 100 != 0) continue;
    const NoGrad off;
    std::printf("%4d   %.3f   %6.1f %%   %6.1f %%\n", step, loss.item(),
                100 * accuracy(logits, train.labels), 100 * accuracy(network(test.x), test.labels));
  }
}
