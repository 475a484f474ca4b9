// Lesson 3: a broadcast forward is a sum backward, and the other way round.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cstdio>
#include <vector>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

void print(const char* name, const Tensor& x) {
  std::printf("%-8s %-6s", name, x.shape().str().c_str());
  for (const double value : x.to_vector()) std::printf(" %g", value);
  std::printf("\n");
}

}  // namespace

int main() {
  const Tensor a = from_vector({1, 2, 3, 4, 5, 6}, {2, 3}, exact).set_requires_grad();
  const Tensor b = from_vector({10, 20, 30}, {3}, exact).set_requires_grad();
  const Tensor dy = from_vector({1, 2, 3, 10, 20, 30}, {2, 3}, exact);

  std::printf("y = a + b, b in each row\n");
  const Tensor y = a + b;
  backward(y, {.gradient = dy});
  print("y", y);
  print("da", a.grad());
  print("db", b.grad());
  print("sum_to", sum_to(dy, b.shape()));

  std::printf("\ny = mean over the rows of a\n");
  a.zero_grad();
  const Tensor column_means = mean(a, {0});
  backward(column_means, {.gradient = from_vector({1, 2, 3}, {3}, exact)});
  print("y", column_means);
  print("da", a.grad());

  std::printf("\ny = a c, c one number\n");
  a.zero_grad();
  const Tensor c = from_vector({2}, {}, exact).set_requires_grad();
  backward(a * c, {.gradient = dy});
  print("da", a.grad());
  print("dc", c.grad());
}
