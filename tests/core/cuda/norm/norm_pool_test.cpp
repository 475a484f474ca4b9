// Batch norm fused with the max-pooling behind it, against the unfused operators, both on the GPU,
// over images of which a thread computes several rows of windows.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/separated.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <vector>

namespace whisker::test {
namespace {

using CudaNormPool = GpuTest;

/// 48 times one image.
Tensor images(int64_t channels, DType dtype) {
  const Shape one{1, 113, 112, channels};
  return broadcast_to(from_vector(separated(one), one).to(dtype).to(gpu), one.with(0, 48));
}

struct Results {
  Tensor y, dx, dgamma, dbeta;
};

Results results_of(const Tensor& images, const Pool2dOptions& pool, bool fused) {
  const Tensor x = images.detach();
  const int64_t channels = x.extent(-1);
  std::vector<double> signs(static_cast<size_t>(channels));
  for (size_t c = 0; c < signs.size(); ++c) signs[c] = c % 3 == 1 ? -0.75 : 1.25;
  const Tensor gamma = from_vector(signs, {channels}).to(gpu);
  const Tensor beta = full({channels}, -0.25, {.device = gpu});
  for (const Tensor* leaf : {&x, &gamma, &beta}) leaf->set_requires_grad();
  const BatchNormOperands norm{
      gamma, beta, {}, {.training = true, .activation = {Activation::relu}}};
  const Tensor y = fused ? batch_norm_max_pool2d(x, norm, pool)
                         : max_pool2d(batch_norm(x, gamma, beta, norm.state, norm.options), pool);
  const Tensor dy = rand_normal(y.shape(), 0.5, 1, 4, 3, {.device = gpu}).to(y.dtype());
  backward(y, {.gradient = dy});
  return {y.detach(), x.grad(), gamma.grad(), beta.grad()};
}

double largest(const Tensor& x) {
  return max(abs(x.to(DType::f32))).item();
}

TEST_F(CudaNormPool, IsTheUnfusedLayersOverSeveralRowsOfWindows) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t channels : {64, 9}) {
      const Tensor x = images(channels, dtype);
      const int64_t rows = x.count() / channels;
      for (const Pool2dOptions& pool : {Pool2dOptions{.kernel = 3, .stride = Pair(2), .padding = 1},
                                        Pool2dOptions{.kernel = 2}}) {
        SCOPED_TRACE(
            fmt::format("{} {} kernel {}", name_of(dtype), x.shape().str(), pool.kernel.h));
        const Results fused = results_of(x, pool, true), again = results_of(x, pool, true);
        const Results unfused = results_of(x, pool, false);
        EXPECT_EQ(largest(fused.y - unfused.y), 0) << "y, bit for bit";
        EXPECT_GT(largest(fused.y), 0.5);
        EXPECT_LE(largest(fused.dx - unfused.dx), tolerance(dtype, rows) * largest(unfused.dx))
            << "dx";
        const double scale = std::sqrt(static_cast<double>(rows));
        EXPECT_TRUE(close(fused.dgamma.to_vector(), unfused.dgamma.to_vector(),
                          tolerance(DType::f32, rows), scale))
            << "dgamma";
        EXPECT_TRUE(close(fused.dbeta.to_vector(), unfused.dbeta.to_vector(),
                          tolerance(DType::f32, rows), scale))
            << "dbeta";
        EXPECT_EQ(largest(fused.dx - again.dx), 0) << "dx again";
        EXPECT_EQ(fused.dgamma.to_vector(), again.dgamma.to_vector());
        EXPECT_EQ(fused.dbeta.to_vector(), again.dbeta.to_vector());
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
