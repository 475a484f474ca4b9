// Lesson 4: the gradients of a matrix product are matrix products.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

const char* agree(const Tensor& a, const Tensor& b) {
  return max(abs(a - b)).item() < 1e-12 ? "yes" : "no";
}

Tensor turned(const Tensor& x) {
  return transpose(x, {1, 0});
}

}  // namespace

int main() {
  const int64_t n = 4, m = 3, p = 2;
  const Tensor a = rand_normal({n, m}, 0, 1, /*seed=*/1, /*stream=*/1, exact).set_requires_grad();
  const Tensor b = rand_normal({m, p}, 0, 1, 1, 2, exact).set_requires_grad();
  const Tensor dy = rand_normal({n, p}, 0, 1, 1, 3, exact);
  backward(matmul(a, b), {.gradient = dy});

  const NoGrad off;
  std::printf("a (4,3) b (3,2) dy (4,2)\n");
  std::printf("da = dy b^T  %s  as the engine's: %s\n", a.grad().shape().str().c_str(),
              agree(a.grad(), matmul(dy, turned(b))));
  std::printf("db = a^T dy  %s  as the engine's: %s\n", b.grad().shape().str().c_str(),
              agree(b.grad(), matmul(turned(a), dy)));

  // db is a sum over the rows of a: of a batch, one product of a column and a row each.
  Tensor total = zeros({m, p}, exact);
  for (int64_t row = 0; row < n; ++row) {
    total = total + matmul(turned(slice(a, 0, row, row + 1)), slice(dy, 0, row, row + 1));
  }
  std::printf("db as a sum over the batch     : %s\n", agree(b.grad(), total));

  // How many multiplications: two products of the size of the first.
  std::printf("multiplications: forward %lld, backward %lld\n", static_cast<long long>(n * m * p),
              static_cast<long long>(2 * n * m * p));

  // A chain of products: which order is cheaper depends on the shapes. Backward begins with dy.
  const long long wide = 1000, one = 1;
  std::printf("J1 J2 v from the right: %lld; from the left: %lld\n", 2 * wide * wide * one,
              wide * wide * wide + wide * wide * one);
}
