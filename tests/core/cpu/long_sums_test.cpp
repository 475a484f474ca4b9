// Sums over millions of positions in f32: blocks of them are added, so that the error is that of a
// block and not of the whole.
#include "core/autograd/autograd.h"
#include "core/cpu/cpu_backend.h"
#include "core/ops/ops.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr int64_t side = 2048, positions = side * side;

double relative_error(double got, double wanted) {
  return std::abs(got / wanted - 1);
}

Tensor constant_image(double value, int64_t channels = 1) {
  return full({1, side, side, channels}, value);
}

// 0.1 is no f32: a running f32 sum of as many is 4 % off. (The weights' gradient is oneDNN's sum.)
TEST(LongSums, GradientOfAConvolutionsBias) {
  const Tensor x = constant_image(0.3);
  const Tensor w = full({8, 1, 1, 1}, 0.5).set_requires_grad();
  const Tensor b = full({8}, 0.0).set_requires_grad();
  backward(sum(conv2d(x, w, b)) * 0.1);
  EXPECT_LT(relative_error(b.grad().to_vector()[3], double{0.1f} * positions), 1e-5);
}

TEST(LongSums, GradientsOfADepthwiseConvolution) {
  const Tensor x = constant_image(0.3, 8);
  const Tensor w = full({8, 3, 3, 1}, 0.5).set_requires_grad();
  const Tensor b = full({8}, 0.0).set_requires_grad();
  backward(sum(conv2d(x, w, b, {.padding = 1, .groups = 8})) * 0.1);
  const double dy = double{0.1f}, value = double{0.3f};
  EXPECT_LT(relative_error(b.grad().to_vector()[3], dy * positions), 1e-5);
  EXPECT_LT(relative_error(w.grad().to_vector()[9 * 3 + 4], dy * value * positions), 1e-5);
}

TEST(LongSums, GradientsOfALinearLayer) {
  const Tensor x = full({positions, 2}, 0.3);
  const Tensor w = full({2, 2}, 0.5).set_requires_grad();
  const Tensor b = full({2}, 0.0).set_requires_grad();
  backward(sum(linear(x, w, b)) * 0.1);
  const double dy = double{0.1f}, value = double{0.3f};
  EXPECT_LT(relative_error(b.grad().to_vector()[1], dy * positions), 1e-5);
  EXPECT_LT(relative_error(w.grad().to_vector()[1], dy * value * positions), 1e-5);
}

// The first and the last row of a long product count as the others do.
TEST(LongSums, TheEndsOfALongProduct) {
  std::vector<double> rows(positions, 0);
  rows.front() = 1, rows.back() = 2;
  const Tensor x = from_vector(rows, {positions, 1});
  const Tensor w = full({2, 1}, 0.5).set_requires_grad();
  backward(sum(linear(x, w, full({2}, 0.0))));
  EXPECT_EQ(w.grad().to_vector(), (std::vector<double>{3, 3}));
}

TEST(LongSums, AverageOfALargeWindow) {
  const Tensor x = constant_image(0.1, 2);
  const Tensor y = avg_pool2d(x, {.kernel = side});
  EXPECT_LT(relative_error(y.to_vector()[1], double{0.1f}), 1e-6);
}

TEST(LongSums, GradientsOfAFrequentEntry) {
  constexpr int64_t picks = 1 << 22;
  const Tensor table = full({3, 2}, 0.5).set_requires_grad();
  const Tensor often = full({picks}, 1, {.dtype = DType::i64});
  backward(sum(embedding(table, often)) * 0.1);
  const std::vector<double> of_table = table.grad().to_vector();
  EXPECT_LT(relative_error(of_table[2], double{0.1f} * picks), 1e-6);
  EXPECT_EQ(of_table[0], 0);
  EXPECT_EQ(of_table[5], 0);
  const Tensor row = full({1, 2}, 0.5).set_requires_grad();
  backward(sum(gather(row, 1, full({1, picks}, 1, {.dtype = DType::i64}))) * 0.1);
  EXPECT_LT(relative_error(row.grad().to_vector()[1], double{0.1f} * picks), 1e-6);
}

}  // namespace
}  // namespace whisker
