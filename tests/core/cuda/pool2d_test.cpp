// Pooling on the GPU against the reference, with and without whole packs of channels.
#include "core/autograd.h"
#include "core/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <limits>
#include <utility>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

using CudaPooling = GpuTest;

TEST_F(CudaPooling, AgreesWithTheReference) {
  const std::vector<Pool2dOptions> cases = {
      {.kernel = 2},
      {.kernel = 3, .stride = Pair(2), .padding = 1},
      {.kernel = 3, .stride = Pair(2), .ceil = true},
      {.kernel = 2, .stride = Pair(3), .padding = 1},
      {.kernel = {3, 2}, .stride = Pair(1), .padding = 1, .count_padding = true},
      {.kernel = 17, .stride = Pair(3), .padding = 8}};
  for (const Pool2dOptions& options : cases) {
    for (const int64_t channels : {3, 16, 72}) {
      for (const DType dtype : dtypes) {
        const auto name =
            fmt::format("pool {} kernel {} channels {}", dtype, options.kernel.h, channels);
        expect_agreement({.name = "max " + name,
                          .shapes = {{3, 33, 30, channels}},
                          .function = [=](Operands x) { return max_pool2d(x[0], options); },
                          .tolerance = tolerance(dtype, 81),
                          .dtype = dtype,
                          .device = gpu});
        expect_agreement({.name = "avg " + name,
                          .shapes = {{3, 33, 30, channels}},
                          .function = [=](Operands x) { return avg_pool2d(x[0], options); },
                          .tolerance = tolerance(dtype, 600),
                          .dtype = dtype,
                          .device = gpu});
      }
    }
  }
}

/// y and dx of max-pooling pictures full of ties, NaNs and infinities.
std::pair<std::vector<double>, std::vector<double>> odd_values_pooled(const Pool2dOptions& options,
                                                                      int64_t channels, DType dtype,
                                                                      Device device) {
  const Shape shape{2, 21, 18, channels};
  std::vector<double> values = rand_uniform(shape, -2, 2, 5, 0).to_vector();
  const std::vector<double> chance = rand_uniform(shape, 0, 1, 5, 1).to_vector();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::round(values[i]);
    if (chance[i] < 0.03) values[i] = std::numeric_limits<double>::quiet_NaN();
    if (chance[i] > 0.6) values[i] = -std::numeric_limits<double>::infinity();
  }
  const Tensor x = from_vector(values, shape).to(dtype).to(device);
  x.set_requires_grad();
  const Tensor y = max_pool2d(x, options);
  std::vector<double> dy(static_cast<size_t>(y.count()));
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i % 16) + 1;
  backward(y, {.gradient = from_vector(dy, y.shape()).to(dtype).to(device)});
  return {y.to_vector(), x.grad().to_vector()};
}

TEST_F(CudaPooling, TiesGoToTheFirstAndNaNsWin) {
  for (const Pool2dOptions& options :
       {Pool2dOptions{.kernel = 2}, Pool2dOptions{.kernel = 3, .stride = Pair(2), .padding = 1}}) {
    for (const int64_t channels : {3, 16}) {
      const auto [y, dx] = odd_values_pooled(options, channels, DType::f32, reference_device);
      for (const DType dtype : dtypes) {
        const auto [got_y, got_dx] = odd_values_pooled(options, channels, dtype, gpu);
        EXPECT_EQ(got_dx, dx) << name_of(dtype) << " " << channels;
        ASSERT_EQ(got_y.size(), y.size());
        for (size_t i = 0; i < y.size(); ++i) {
          ASSERT_TRUE(got_y[i] == y[i] || (std::isnan(got_y[i]) && std::isnan(y[i])))
              << name_of(dtype) << " " << channels << ", element " << i << ": " << got_y[i]
              << ", expected " << y[i];
        }
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
