// What the operator table cannot reach: conversions, NaN, flat parameter memory, the allocator.
// Values are worked out by hand.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/ops/ops.h"
#include "tests/support/devices.h"
#include "tests/support/error_of.h"
#include "tests/support/special_values.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Kernels : public OnDevice {
 protected:
  TensorOptions options(DType dtype = DType::f32) const {
    return {.dtype = dtype, .device = GetParam()};
  }
  Backend& backend() const { return backend_of(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(, Kernels, ::testing::ValuesIn(every_device),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(Kernels, CastTruncatesSaturatesAndKeepsHalvesExact) {
  const Tensor x = from_vector({-1.75, 2.9, 300, 1e10, -1e30, nan, infinity, 0.5}, {8}, options());
  EXPECT_THAT(cast(x, DType::i32).to_vector(),
              ElementsAre(-1, 2, 300, 2147483647, -2147483648.0, 0, 2147483647, 0));
  EXPECT_THAT(cast(x, DType::u8).to_vector(), ElementsAre(0, 2, 255, 255, 0, 0, 255, 0));
  EXPECT_THAT(cast(x, DType::boolean).to_vector(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  const Tensor y = from_vector({-2, 0.5, 1.0 / 3, 65504, 1e-7, 0}, {6}, options());
  EXPECT_THAT(cast(cast(y, DType::f16), DType::f32).to_vector(),
              ElementsAre(-2, 0.5, 0.333251953125, 65504, 0x1p-23, 0));
  EXPECT_THAT(
      cast(cast(y, DType::bf16), DType::f32).to_vector(),
      ElementsAre(-2, 0.5, 0.333984375, 65536, static_cast<double>(float(bf16_t(1e-7f))), 0));
  const Tensor counts = from_vector({-5, 300, 5e9}, {3}, options(DType::i64));
  EXPECT_THAT(cast(counts, DType::u8).to_vector(), ElementsAre(0, 255, 255));
  EXPECT_THAT(cast(counts, DType::i32).to_vector(), ElementsAre(-5, 300, 2147483647));
  EXPECT_THAT(cast(counts, DType::f32).to_vector(), ElementsAre(-5, 300, 5e9));
}

TEST_P(Kernels, FillAndCopyEveryDType) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::u8, DType::boolean}) {
    SCOPED_TRACE(name_of(dtype));
    EXPECT_THAT(full({3}, 1, options(dtype)).to_vector(), ElementsAre(1, 1, 1));
    const Tensor x = from_vector({1, 0, 1, 1, 0, 0}, {2, 3}, options(dtype));
    EXPECT_THAT(transpose(x, {1, 0}).to_vector(), ElementsAre(1, 1, 0, 0, 1, 0));
    EXPECT_THAT(slice(x, 1, 1, 3).to_vector(), ElementsAre(0, 1, 0, 0));
    const Tensor picks = from_vector({2, 0}, {2, 1}, options(DType::i64));
    EXPECT_THAT(gather(x, 1, picks).to_vector(), ElementsAre(1, 1));
    EXPECT_THAT(one_hot(picks, 3, dtype).to_vector(), ElementsAre(0, 0, 1, 1, 0, 0));
    const Tensor condition = from_vector({1, 0, 1}, {3}, options(DType::boolean));
    const Tensor chosen = where(condition, slice(x, 0, 0, 1), slice(x, 0, 1, 2));
    EXPECT_THAT(chosen.to_vector(), ElementsAre(1, 0, 1));
  }
}

TEST_P(Kernels, IntegersCompareBeyondTheReachOfDouble) {
  const Tensor big = empty({2}, options(DType::i64));
  const int64_t values[] = {(int64_t{1} << 53) + 1, int64_t{1} << 53};
  backend().upload(values, big.raw(), sizeof values);
  EXPECT_THAT(equal(slice(big, 0, 0, 1), slice(big, 0, 1, 2)).to_vector(), ElementsAre(0));
  EXPECT_THAT(greater(slice(big, 0, 0, 1), slice(big, 0, 1, 2)).to_vector(), ElementsAre(1));
}

TEST_P(Kernels, NanIsNeverHidden) {
  const Tensor x = from_vector({1, nan, -2, 3}, {1, 2, 2, 1}, options());
  const Tensor flat = x.reshape({4});
  const auto expect_nan = [](const Tensor& y, size_t at) {
    EXPECT_TRUE(std::isnan(y.to_vector()[at]));
  };
  for (const Tensor& y :
       {clamp(flat, 0, 1), abs(flat), exp(flat), maximum(flat, zeros({4}, options())),
        minimum(zeros({4}, options()), flat), softmax(flat)}) {
    expect_nan(y, 1);
  }
  expect_nan(max(flat), 0);
  expect_nan(min(flat), 0);
  expect_nan(mean(flat), 0);
  expect_nan(max_pool2d(x, {.kernel = 2}), 0);
  expect_nan(avg_pool2d(x, {.kernel = 2}), 0);
  EXPECT_EQ(argmax(flat).item(), 1);
  EXPECT_THAT(equal(flat, flat).to_vector(), ElementsAre(1, 0, 1, 1));
  const Tensor squares = zeros({1}, options(DType::f64));
  backend().training_step().add_squares(flat, static_cast<double*>(squares.raw()));
  expect_nan(squares, 0);
  const Tensor logits = x.reshape({2, 2});
  expect_nan(cross_entropy(logits, zeros({2}, options(DType::i64))), 0);
  expect_nan(binary_cross_entropy_with_logits(logits, zeros({2, 2}, options())), 0);
}

TEST_P(Kernels, ExtremeLogitsNeitherOverflowNorVanish) {
  const Tensor x = from_vector({1000, 0, -1000, 80}, {2, 2}, options());
  EXPECT_THAT(softmax(x).to_vector(), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(log_softmax(x).to_vector(), ElementsAre(0, -1000, -1080, 0));
  EXPECT_EQ(cross_entropy(x, from_vector({1, 0}, {2}, options(DType::i64))).item(), 1040);
  EXPECT_EQ(binary_cross_entropy_with_logits(x, ones({2, 2}, options())).item(),
            static_cast<float>((1000 + std::log(2.0)) / 4));
  EXPECT_THAT(sigmoid(from_vector({-1000, 1000}, {2}, options())).to_vector(), ElementsAre(0, 1));
  EXPECT_THAT(softplus(from_vector({-1000, 1000}, {2}, options())).to_vector(),
              ElementsAre(0, 1000));
}

TEST_P(Kernels, TiesGoToTheFirst) {
  const Tensor x = from_vector({2, 2, 1, 2}, {1, 2, 2, 1}, options());
  x.set_requires_grad();
  EXPECT_EQ(argmax(x.detach().reshape({4})).item(), 0);
  backward(max_pool2d(x, {.kernel = 2}));
  EXPECT_THAT(x.grad().to_vector(), ElementsAre(1, 0, 0, 0));
  x.zero_grad();
  backward(max(x));
  const std::vector<double> third{1.0f / 3, 1.0f / 3, 0, 1.0f / 3};
  EXPECT_EQ(x.grad().to_vector(), third);
}

TEST_P(Kernels, MemoryIsCountedPerCategoryAndLimited) {
  const MemoryStats before = backend().memory_stats();
  {
    const MemoryScope scope(MemoryCategory::optimizer);
    const Tensor x = zeros({1024}, options());
    const MemoryStats during = backend().memory_stats();
    const auto optimizer = static_cast<size_t>(MemoryCategory::optimizer);
    EXPECT_EQ(during.by_category[optimizer] - before.by_category[optimizer], 4096);
    EXPECT_EQ(during.allocated - before.allocated, 4096);
    EXPECT_GE(during.peak, during.allocated);
    EXPECT_GE(during.reserved, during.allocated);
    backend().set_memory_options({.limit_bytes = during.allocated + 1000});
    EXPECT_THAT(message_of(ErrorKind::device, [&] { zeros({1024}, options()); }),
                AllOf(HasSubstr("out of memory"), HasSubstr("optimizer")));
    zeros({250}, options());  // 1,000 bytes still fit
    backend().set_memory_options({});
  }
  EXPECT_EQ(backend().memory_stats().allocated, before.allocated);
  backend().reset_peak();
  EXPECT_EQ(backend().memory_stats().peak, backend().memory_stats().allocated);
}

TEST_P(Kernels, PoisonedMemoryIsNan) {
  backend().set_memory_options({.poison = true});
  for (const double value : empty({77}, options()).to_vector()) EXPECT_TRUE(std::isnan(value));
  backend().set_memory_options({});
}

}  // namespace
}  // namespace whisker::test
