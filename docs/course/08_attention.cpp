// Lesson 8: attention by hand, beside the engine's operator; why scores are divided by sqrt(d).
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cmath>
#include <cstdio>
#include <vector>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
constexpr int64_t tokens = 5, d = 4;

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(a - b)).item();
}

Tensor turned(const Tensor& x) {
  return transpose(x, {1, 0});
}

// dq = ds k scale with ds = p (dp - the row's sum of dp p), and dp = dy v^T.
void by_hand() {
  const Tensor q = rand_normal({tokens, d}, 0, 1, 1, 1, exact);
  const Tensor k = rand_normal({tokens, d}, 0, 1, 1, 2, exact);
  const Tensor v = rand_normal({tokens, d}, 0, 1, 1, 3, exact);
  const Tensor dy = rand_normal({tokens, d}, 0, 1, 1, 4, exact);
  const double scale = 1 / std::sqrt(double{d});

  const Tensor qkv = concat({q, k, v}, 1).reshape({1, tokens, 3 * d}).detach().set_requires_grad();
  backward(attention(qkv), {.gradient = dy.reshape({1, tokens, d})});
  const std::vector<Tensor> engine = split(qkv.grad().reshape({tokens, 3 * d}), {{d, d, d}}, 1);

  const Tensor p = softmax(matmul(q, turned(k)) * scale);
  const Tensor dp = matmul(dy, turned(v));
  const Tensor ds = p * (dp - sum(dp * p, {1}, {.keep_axes = true})) * scale;
  const auto agrees = [](const Tensor& a, const Tensor& b) {
    return largest_difference(a, b) < 1e-12 ? "yes" : "no";
  };
  std::printf("dq = ds k     as the engine's: %s\n", agrees(matmul(ds, k), engine[0]));
  std::printf("dk = ds^T q   as the engine's: %s\n", agrees(matmul(turned(ds), q), engine[1]));
  std::printf("dv = p^T dy   as the engine's: %s\n", agrees(matmul(turned(p), dy), engine[2]));
  std::printf("each row of ds adds up to 0:   %s\n",
              max(abs(sum(ds, {1}))).item() < 1e-12 ? "yes" : "no");
}

// Without the scale, scores grow with sqrt(d): the softmax chooses one key and its slope dies.
void why_the_scale() {
  std::printf("\n       with the scale           without\n");
  std::printf("   d   largest p   slopes      largest p   slopes\n");
  for (const int64_t width : {4, 64, 1024}) {
    const Tensor q = rand_normal({64, width}, 0, 1, 1, 1, exact);
    const Tensor k = rand_normal({64, width}, 0, 1, 1, 2, exact);
    std::printf("%4lld", static_cast<long long>(width));
    for (const double scale : {1 / std::sqrt(static_cast<double>(width)), 1.0}) {
      const Tensor p = softmax(matmul(q, turned(k)) * scale);
      // The slopes dp(j)/ds(j) of a row are p (1 - p).
      std::printf("   %9.3f   %6.3f   ", mean(max(p, {1})).item(),
                  mean(sum(p * affine(p, -1, 1), {1})).item());
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  by_hand();
  why_the_scale();
}
