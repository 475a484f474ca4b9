// Lesson 7: a recurrent layer is one operator many times; its gradient shrinks or grows on the way.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cmath>
#include <cstdio>
#include <vector>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
constexpr int64_t steps = 20, examples = 4, units = 8;

double norm(const Tensor& x) {
  return sqrt(sum(x * x)).item();
}

// h(t + 1) = tanh(x(t) + h(t) u), without the tanh where `linear`. The gradient of each state.
std::vector<double> gradients_of_states(double scale, bool linear) {
  const Tensor u = rand_normal({units, units}, 0, scale / std::sqrt(double{units}), 1, 1, exact)
                       .set_requires_grad();
  std::vector<Tensor> h = {zeros({examples, units}, exact).set_requires_grad()};
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor x = rand_normal({examples, units}, 0, 0.5, 1, static_cast<uint64_t>(2 + t), exact);
    const Tensor a = x + matmul(h.back(), u);
    h.push_back(linear ? a : tanh(a));
  }
  const Tensor dy = rand_normal({examples, units}, 0, 1, 1, 100, exact);
  std::vector<double> norms;
  for (const Tensor& dh : grad(h.back(), h, {.gradient = dy})) norms.push_back(norm(dh));
  return norms;
}

// dw of a loss on the last state alone, from the last `kept` steps.
double truncated(int64_t kept) {
  const Tensor u =
      rand_normal({units, units}, 0, 1 / std::sqrt(double{units}), 1, 1, exact).set_requires_grad();
  Tensor h = zeros({examples, units}, exact);
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor x = rand_normal({examples, units}, 0, 0.5, 1, static_cast<uint64_t>(2 + t), exact);
    if (t == steps - kept) h = h.detach();  // the tape ends here
    h = tanh(x + matmul(h, u));
  }
  const Tensor dy = rand_normal({examples, units}, 0, 1, 1, 100, exact);
  return norm(grad(h, {{u}}, {.gradient = dy})[0]);
}

}  // namespace

int main() {
  std::printf("norm of the gradient of state t, from the last state back\n");
  std::printf("  t   u of 0.5   u of 1.0   u of 2.0   u of 2.0, linear\n");
  const std::vector<double> small = gradients_of_states(0.5, false),
                            one = gradients_of_states(1, false),
                            large = gradients_of_states(2, false),
                            linear = gradients_of_states(2, true);
  for (size_t t = steps + 1; t-- > 0;) {
    if (t % 5 != 0) continue;
    std::printf(" %2zu   %8.1e   %8.1e   %8.1e   %8.1e\n", t, small[t], one[t], large[t],
                linear[t]);
  }
  std::printf("norm of du by how many steps back-propagation goes back\n");
  for (const int64_t kept : {1, 2, 5, 20}) {
    std::printf(" %2lld   %.4f\n", static_cast<long long>(kept), truncated(kept));
  }
}
