// Max-pooling of odd values on the GPU against the reference, with and without whole packs of
// channels, and of many images against each alone.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/core/cases/pool_cases.h"
#include "tests/core/cuda/gpu.h"

#include <cmath>
#include <limits>
#include <utility>

namespace whisker::test {
namespace {

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

using CudaPooling = GpuTest;

using Values = std::vector<double>;

/// y and dx.
std::pair<Values, Values> pooled(const Tensor& x, const Tensor& dy, const Pool2dOptions& options) {
  const Tensor leaf = x.detach();
  leaf.set_requires_grad();
  const Tensor y = max_pool2d(leaf, options);
  backward(y, {.gradient = dy});
  return {y.to_vector(), leaf.grad().to_vector()};
}

/// Of images full of ties, NaNs, infinities and zeros of both signs.
std::pair<Values, Values> odd_values_pooled(const Pool2dOptions& options, const Shape& shape,
                                            DType dtype, Device device) {
  Values values = rand_uniform(shape, -2, 2, 5, 0).to_vector();
  const Values chance = rand_uniform(shape, 0, 1, 5, 1).to_vector();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::round(values[i]);
    if (chance[i] < 0.03) values[i] = std::numeric_limits<double>::quiet_NaN();
    if (chance[i] > 0.6) values[i] = -std::numeric_limits<double>::infinity();
  }
  const Pool2dGeometry g = pool2d_geometry(PoolKind::max, shape, options, dtype);
  Values dy(static_cast<size_t>(g.n * g.h_out * g.w_out * g.c));
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i % 16) + 1;
  return pooled(from_vector(values, shape).to(dtype).to(device),
                from_vector(dy, {g.n, g.h_out, g.w_out, g.c}).to(dtype).to(device), options);
}

void expect_odd_values_agree(const Pool2dOptions& options, const Shape& shape) {
  const auto [y, dx] = odd_values_pooled(options, shape, DType::f32, reference_device);
  for (const DType dtype : dtypes) {
    const auto [got_y, got_dx] = odd_values_pooled(options, shape, dtype, gpu);
    const auto name =
        fmt::format("{} {} kernel {} stride {} padding {}", shape, dtype, options.kernel.h,
                    options.stride.value_or(options.kernel).h, options.padding.h);
    EXPECT_EQ(got_dx, dx) << name;
    ASSERT_EQ(got_y.size(), y.size()) << name;
    for (size_t i = 0; i < y.size(); ++i) {
      const bool same = got_y[i] == y[i] && std::signbit(got_y[i]) == std::signbit(y[i]);
      ASSERT_TRUE(same || (std::isnan(got_y[i]) && std::isnan(y[i])))
          << name << ", element " << i << ": " << got_y[i] << ", expected " << y[i];
    }
  }
}

TEST_F(CudaPooling, TiesGoToTheFirstAndNaNsWin) {
  for (const Pool2dOptions& options : small_windows()) {
    for (const int64_t channels : {3, 16, 24}) {
      expect_odd_values_agree(options, {2, 21, 18, channels});
      expect_odd_values_agree(options, {1, 4, 3, channels});
    }
  }
}

TEST_F(CudaPooling, TiesOfWholeImagesAndLargeDisjointWindows) {
  const std::vector<Pool2dOptions> cases = {{.kernel = {21, 18}},
                                            {.kernel = {10, 9}},
                                            {.kernel = {5, 4}, .stride = Pair(7, 6)},
                                            {.kernel = 17, .stride = Pair(18, 17), .padding = 5}};
  for (const Pool2dOptions& options : cases) {
    for (const int64_t channels : {3, 16, 24}) {
      expect_odd_values_agree(options, {2, 21, 18, channels});
    }
  }
}

// Threads take more than one row only of tensors that fill the GPU; an image by itself does not.
TEST_F(CudaPooling, StripsEqualSingleRows) {
  const std::vector<Pool2dOptions> cases = {{.kernel = 2},
                                            {.kernel = 3, .stride = Pair(2), .padding = 1},
                                            {.kernel = 3, .stride = Pair(1), .padding = 1}};
  for (const int64_t channels : {12, 64}) {
    const Shape shape{64, 113, 111, channels};
    const Tensor values = rand_normal(shape, 0, 1, 1, 1, {.device = gpu});
    const Tensor slopes = rand_normal({shape.count()}, 0, 1, 1, 2, {.device = gpu});
    for (const Pool2dOptions& options : cases) {
      for (const DType dtype : dtypes) {
        const Tensor x = values.to(dtype);
        const Pool2dGeometry g = pool2d_geometry(PoolKind::max, shape, options, dtype);
        const Shape pooled_shape{g.n, g.h_out, g.w_out, g.c};
        const Tensor dy = slice(slopes, 0, 0, pooled_shape.count()).reshape(pooled_shape).to(dtype);
        const Tensor leaf = x.detach();
        leaf.set_requires_grad();
        const Tensor y = max_pool2d(leaf, options);
        backward(y, {.gradient = dy});
        for (const int64_t image : {0, 29, 63}) {
          const auto alone = [&](const Tensor& all) {
            return slice(all.detach(), 0, image, image + 1);
          };
          const auto [one_y, one_dx] = pooled(alone(x), alone(dy), options);
          const auto name = fmt::format("{} kernel {} stride {} channels {} image {}", dtype,
                                        options.kernel.h, g.stride_h, channels, image);
          EXPECT_TRUE(alone(y).to_vector() == one_y) << "y " << name;
          EXPECT_TRUE(alone(leaf.grad()).to_vector() == one_dx) << "dx " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
