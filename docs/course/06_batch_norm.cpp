// Lesson 6: batch norm by hand. Its statistics depend on each x, which adds two terms to dx.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cstdio>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
constexpr double epsilon = 1e-5;

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(a - b)).item();
}

// What fraction of dx is wrong, measured as vectors.
double error(const Tensor& tried, const Tensor& right) {
  return sqrt(sum(pow(tried - right, 2))).item() / sqrt(sum(pow(right, 2))).item();
}

}  // namespace

int main() {
  const int64_t rows = 8, channels = 3;
  const Tensor x = rand_normal({rows, channels}, 5, 2, 1, 1, exact).set_requires_grad();
  const Tensor gamma = rand_uniform({channels}, 0.5, 1.5, 1, 2, exact).set_requires_grad();
  const Tensor beta = rand_normal({channels}, 0, 1, 1, 3, exact).set_requires_grad();
  const Tensor dy = rand_normal({rows, channels}, 0, 1, 1, 4, exact);

  const BatchNormState state{.running_mean = zeros({channels}, exact),
                             .running_var = ones({channels}, exact),
                             .pending_mean = zeros({channels}, exact),
                             .pending_var = ones({channels}, exact)};
  backward(batch_norm(x, gamma, beta, state, {.training = true, .epsilon = epsilon}),
           {.gradient = dy});

  const NoGrad off;
  const Tensor deviation = sqrt(var(x, {0}, {}, /*correction=*/0) + epsilon);
  const Tensor z = (x - mean(x, {0})) / deviation;
  const Tensor dz = dy * gamma;
  const Tensor constants = dz / deviation;  // as if mean and variance were constants
  const Tensor with_mean = (dz - mean(dz, {0})) / deviation;
  const Tensor dx = (dz - mean(dz, {0}) - z * mean(dz * z, {0})) / deviation;

  std::printf("dbeta  = sum of dy    differs by less than 1e-12: %s\n",
              largest_difference(sum(dy, {0}), beta.grad()) < 1e-12 ? "yes" : "no");
  std::printf("dgamma = sum of dy z  differs by less than 1e-12: %s\n",
              largest_difference(sum(dy * z, {0}), gamma.grad()) < 1e-12 ? "yes" : "no");
  std::printf("dx with all terms     differs by less than 1e-12: %s\n",
              largest_difference(dx, x.grad()) < 1e-12 ? "yes" : "no");
  std::printf("dx without the term of the variance: wrong by %.0f %%\n",
              100 * error(with_mean, x.grad()));
  std::printf("dx without both terms:               wrong by %.0f %%\n",
              100 * error(constants, x.grad()));

  // Adding a number to a channel, or scaling it, does not change z: dx is orthogonal to both.
  std::printf("sum of dx in each channel is 0:      %s\n",
              max(abs(sum(x.grad(), {0}))).item() < 1e-12 ? "yes" : "no");
  std::printf("sum of dx z in each channel is 0:    %s, but for epsilon's part\n",
              max(abs(sum(x.grad() * z, {0}))).item() < 1e-4 ? "yes" : "no");
}
