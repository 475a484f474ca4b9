// More than one GPU: the second computes what the first does, in memory of its own; tensors go from
// one to the other by to() and copy_() alone. Operands on two devices are refused.
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/core/cuda/small_training.h"
#include "tests/support/error_of.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Device second{DeviceKind::cuda, 1};

/// Skips where there is no second GPU. Both have the options under which a GPU repeats itself.
class SeveralGpus : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (cuda_device_count() == 1) GTEST_SKIP() << "skipped: one GPU";
    before_ = cuda_options(second);
    CudaOptions options = exact_options();
    options.deterministic = true;
    for (const Device device : {gpu, second}) set_cuda_options(device, options);
    poisoned_.emplace(second);
  }
  void TearDown() override {
    if (before_) set_cuda_options(second, *before_);
    GpuTest::TearDown();
  }
  static bool of_one_kind() { return cuda_gpu(gpu).name == cuda_gpu(second).name; }

 private:
  std::optional<CudaOptions> before_;
  std::optional<PoisonedMemory> poisoned_;
};

TEST_F(SeveralGpus, MemoryIsCountedWhereItIsTaken) {
  Backend &one = backend_of(gpu), &other = backend_of(second);
  SmallTraining training(second);
  training.load(0);
  training.step();  // what the libraries keep is there
  for (Backend* backend : {&one, &other}) backend->reset_peak();
  const MemoryStats one_before = one.memory_stats(), other_before = other.memory_stats();
  {
    const Tensor x = full({1 << 20}, 1, {.device = second});
    const Tensor y = affine(x, 2, 0);
    EXPECT_EQ(other.memory_stats().allocated, other_before.allocated + x.bytes() + y.bytes());
    EXPECT_GE(other.memory_stats().reserved, other.memory_stats().allocated);
    training.step();
    EXPECT_GT(other.memory_stats().peak, other_before.allocated + x.bytes() + y.bytes());
  }
  EXPECT_EQ(other.memory_stats().allocated, other_before.allocated);
  EXPECT_EQ(one.memory_stats().allocated, one_before.allocated);
  EXPECT_EQ(one.memory_stats().reserved, one_before.reserved);
  EXPECT_EQ(one.memory_stats().peak, one_before.peak);
}

void expect_equal(const Tensor& got, const Tensor& want, Device device) {
  EXPECT_TRUE(got.device() == device) << got.device().str();
  EXPECT_EQ(got.dtype(), want.dtype());
  EXPECT_TRUE(got.shape() == want.shape());
  EXPECT_EQ(got.to_vector(), want.to_vector());
}

TEST_F(SeveralGpus, TensorsAreCopiedFromOneToTheOther) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
    const Tensor whole = arange(6000, {.dtype = dtype}).reshape({20, 300});
    const Tensor part = slice(whole, 0, 7, 13);
    ASSERT_GT(part.offset(), 0);
    for (const Tensor& x : {whole, part, empty({0, 3}, {.dtype = dtype})}) {
      const Tensor there = x.to(second);
      expect_equal(there, x, second);
      expect_equal(there.to(gpu), x, gpu);
      expect_equal(x.to(gpu).to(second), x, second);
      expect_equal(there.to(cpu_device), x, cpu_device);
    }
    const Tensor view = slice(whole.to(gpu), 0, 7, 13);
    expect_equal(view.to(second), part, second);
    const Tensor target = zeros(whole.shape(), {.dtype = dtype, .device = second});
    slice(target, 0, 7, 13).copy_(view);
    const Tensor want = zeros(whole.shape(), {.dtype = dtype});
    slice(want, 0, 7, 13).copy_(part);
    expect_equal(target, want, second);
  }
}

struct DividedCall {
  const char* operands;
  std::function<void()> call;
};

std::vector<DividedCall> divided_calls(Device a, Device b) {
  const auto on = [](Device device, const Shape& shape, DType dtype = DType::f32) {
    return zeros(shape, {.dtype = dtype, .device = device});
  };
  return {
      {"add", [=] { add(on(a, {2}), on(b, {2})); }},
      {"matmul",
       [=] {
         matmul(on(a, {2, 3}), on(b, {3, 2}));
       }},
      {"concat",
       [=] {
         concat({on(a, {2}), on(b, {2})}, 0);
       }},
      {"linear, bias",
       [=] {
         linear(on(a, {2, 3}), on(a, {4, 3}), on(b, {4}));
       }},
      {"conv2d, weights",
       [=] {
         conv2d(on(a, {1, 4, 4, 3}), on(b, {2, 3, 3, 3}), {});
       }},
      {"conv2d, bias",
       [=] {
         conv2d(on(a, {1, 4, 4, 3}), on(a, {2, 3, 3, 3}), on(b, {2}));
       }},
      {"cross_entropy, labels",
       [=] {
         cross_entropy(on(a, {2, 4}), on(b, {2}, DType::i64));
       }},
  };
}

void expect_refused(Device a, Device b) {
  for (const auto& [operands, call] : divided_calls(a, b)) {
    const std::string said = error_of(call);
    EXPECT_THAT(said, StartsWith("2: ")) << operands;  // usage
    EXPECT_THAT(said, HasSubstr("is on " + a.str())) << operands;
    EXPECT_THAT(said, HasSubstr("is on " + b.str())) << operands;
  }
}

TEST_F(SeveralGpus, OperandsOnTwoOfThemAreRefused) {
  expect_refused(gpu, second);
  expect_refused(second, gpu);
}

using CudaOperands = GpuTest;

TEST_F(CudaOperands, OnTheCpuAndTheGpuAreRefused) {
  expect_refused(gpu, cpu_device);
  expect_refused(cpu_device, gpu);
}

// While the first one trains, too, on the same thread.
TEST_F(SeveralGpus, StepsAreCapturedOnTheSecond) {
  SmallTraining first(gpu), eager(second), captured(second);
  for (int64_t batch = 0; batch < 3; ++batch) {  // warm-up: libraries choose their algorithms
    for (SmallTraining* training : {&first, &eager, &captured}) {
      training->load(batch);
      training->step();
    }
  }
  captured.load(3);
  const auto graph = backend_of(second).capture([&] { captured.step(); });
  ASSERT_NE(graph, nullptr);
  for (int64_t batch = 3; batch < 8; ++batch) {
    captured.load(batch);
    for (SmallTraining* training : {&first, &eager}) {
      training->load(batch);
      training->step();
    }
    graph->replay();
    ASSERT_EQ(captured.weights(), eager.weights()) << "after batch " << batch;
  }
  if (of_one_kind()) {
    EXPECT_EQ(eager.weights(), first.weights());
  }
  EXPECT_EQ(captured.state().totals.loss, eager.state().totals.loss);
  EXPECT_EQ(captured.state().steps, 8);
  EXPECT_EQ(captured.state().failure, StepFailure::none);
}

}  // namespace
}  // namespace whisker::test
