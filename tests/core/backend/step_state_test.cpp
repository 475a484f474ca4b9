// The scalar rules of a training step (core/backend/step_state.h), and the kernels around them on
// every device: counting a batch, the norm, averages, conditional copies, masks that move on.
#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/ops/ops.h"
#include "core/parameters/step_memory.h"
#include "tests/support/devices.h"
#include "tests/support/special_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;

// --- the rules -------------------------------------------------------------------------------

TEST(StepState, IntegerPowerIsPow) {
  for (const double base : {0.0, 0.9, 0.999, 1.0}) {
    for (const int64_t n : {1, 2, 7, 100, 12345, 1'000'000}) {
      const double want = std::pow(base, static_cast<double>(n));
      EXPECT_NEAR(integer_power(base, n), want, 0x1p-53 * static_cast<double>(n) * want)
          << base << "^" << n;
    }
  }
}

TEST(StepState, CountsBatchesAndStopsAtALossThatIsNotFinite) {
  for (const double bad : {nan, infinity, -infinity}) {
    StepState s;
    s.inputs.batch = 5;
    count_batch(s, {}, {0.5, 3, 8});
    count_batch(s, {}, {1.5, 1, 2});
    EXPECT_EQ(s.totals.loss, 7);
    EXPECT_EQ(s.totals.correct, 4);
    EXPECT_EQ(s.totals.rows, 10);
    s.inputs.batch = 6;
    count_batch(s, {}, {bad, 8, 8});
    s.inputs.batch = 7;
    count_batch(s, {}, {0.5, 8, 8});
    EXPECT_EQ(s.totals.rows, 10);
    EXPECT_EQ(s.failure, StepFailure::loss);
    EXPECT_EQ(s.failed_batch, 6);
    EXPECT_EQ(s.sound, 0);
    begin_update(s, {}, 1);
    EXPECT_EQ(s.applies, 0);
    EXPECT_EQ(s.steps, 0);
  }
}

TEST(StepState, ClipsToTheNormAndCorrectsTheBias) {
  StepState s;
  s.inputs.gradient_scale = 0.5;
  begin_update(s, {.clip_norm = 2, .beta1 = 0.9, .beta2 = 0.99}, 10);
  EXPECT_EQ(s.applies, 1);
  EXPECT_EQ(s.gradient_norm, 5);
  EXPECT_DOUBLE_EQ(s.gradient_factor, 0.5 * 2 / (5 + 1e-6));
  EXPECT_EQ(s.steps, 1);
  EXPECT_DOUBLE_EQ(s.correction1, 0.1);
  EXPECT_DOUBLE_EQ(s.correction2, 1 - 0.99);
  begin_update(s, {.clip_norm = 6, .beta1 = 0.9, .beta2 = 0.99}, 10);
  EXPECT_EQ(s.gradient_factor, 0.5);  // below the bound
  EXPECT_DOUBLE_EQ(s.correction1, 1 - 0.81);
}

TEST(StepState, GradientsAreDividedByTheWeightOfTheirBatches) {
  StepState s{.loss_scale = 4, .group_weight = 2.5F};
  begin_update(s, {.clip_norm = 100}, 30);
  EXPECT_DOUBLE_EQ(s.gradient_norm, 3);
  EXPECT_DOUBLE_EQ(s.gradient_factor, 0.1);
}

TEST(StepState, ANormThatIsNotFiniteIsTheEnd) {
  StepState s;
  s.inputs.batch = 9;
  begin_update(s, {}, 3);
  begin_update(s, {}, nan);
  EXPECT_EQ(s.failure, StepFailure::gradient);
  EXPECT_EQ(s.failed_batch, 9);
  EXPECT_TRUE(std::isnan(s.gradient_norm));
  s.inputs.batch = 10;
  begin_update(s, {}, 3);  // nothing any more, and the first failure is remembered
  EXPECT_EQ(s.applies, 0);
  EXPECT_EQ(s.sound, 0);
  EXPECT_EQ(s.steps, 1);
  EXPECT_EQ(s.failed_batch, 9);
}

TEST(StepState, ALossScaleIsHalvedAtOverflowsAndDoubledAfterManyGoodSteps) {
  const StepRule rule{.scales_loss = true};
  StepState s{.loss_scale = 1024};
  begin_update(s, rule, 2048);
  EXPECT_EQ(s.gradient_norm, 2);
  EXPECT_EQ(s.gradient_factor, 1.0 / 1024);
  begin_update(s, rule, infinity);
  EXPECT_EQ(s.loss_scale, 512);
  EXPECT_EQ(s.applies, 0);
  EXPECT_EQ(s.steps, 1);
  EXPECT_EQ(s.skipped, 1);
  EXPECT_EQ(s.failure, StepFailure::none);
  for (int i = 0; i < loss_scale_interval; ++i) {
    EXPECT_EQ(s.loss_scale, 512);
    begin_update(s, rule, 1);
  }
  EXPECT_EQ(s.loss_scale, 1024);
  EXPECT_EQ(s.steps, 1 + loss_scale_interval);
  count_batch(s, rule, {nan, 0, 4});  // a loss beyond f16 skips its update, too
  begin_update(s, rule, 1);
  EXPECT_EQ(s.applies, 0);
  EXPECT_EQ(s.loss_scale, 512);
  begin_update(s, rule, 1);
  EXPECT_EQ(s.applies, 1);
}

TEST(StepState, OverflowsWithoutEndAreDivergence) {
  const StepRule rule{.scales_loss = true};
  StepState s{.loss_scale = 0x1p100f};
  for (int i = 0; i < most_skipped_in_row - 1; ++i) begin_update(s, rule, infinity);
  EXPECT_EQ(s.failure, StepFailure::none);
  begin_update(s, rule, infinity);
  EXPECT_EQ(s.failure, StepFailure::loss_scale);
  StepState small{.loss_scale = 1};
  begin_update(small, rule, infinity);
  EXPECT_EQ(small.failure, StepFailure::loss_scale);
}

TEST(StepState, AveragesForgetTheStart) {
  EXPECT_EQ(average_decay(0.9, false, 1), 0.9);
  EXPECT_DOUBLE_EQ(average_decay(0.9, true, 1), 2.0 / 11);
  EXPECT_DOUBLE_EQ(average_decay(0.9, true, 1000), 0.9);
}

// --- the kernels -----------------------------------------------------------------------------

class StepKernels : public OnDevice {
 protected:
  TensorOptions options(DType dtype = DType::f32) const {
    return {.dtype = dtype, .device = GetParam()};
  }
  Backend& backend() const { return backend_of(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(, StepKernels, ::testing::ValuesIn(every_device),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(StepKernels, MemoryIsWrittenAndReadInParts) {
  StepMemory memory(GetParam(), {.loss_scale = 8});
  memory.write_inputs({.batch = 3, .learning_rate = 0.5, .gradient_scale = 0.25});
  memory.write_totals({.loss = 2, .correct = 4, .rows = 6});
  const StepState state = memory.read();
  EXPECT_EQ(state.inputs.batch, 3);
  EXPECT_EQ(state.inputs.learning_rate, 0.5);
  EXPECT_EQ(state.inputs.gradient_scale, 0.25);
  EXPECT_EQ(state.totals.rows, 6);
  EXPECT_EQ(state.sound, 1);
  EXPECT_EQ(memory.loss_scale().item(), 8);
}

TEST_P(StepKernels, CountBatch) {
  StepMemory memory(GetParam());
  const Tensor labels = from_vector({1, 0, 2, 0}, {4}, options(DType::i64));
  const Tensor logits =
      from_vector({0, 3, 1, /**/ 2, 2, 1, /**/ 9, 8, 7, /**/ -3, -1, -2}, {4, 3}, options());
  backend().training_step().count_batch(logits, from_vector({0.5}, {}, options()),
                                        {{}, labels, memory.state()});
  StepTotals totals = memory.read().totals;
  EXPECT_EQ(totals.correct, 2);  // the first; the second, as ties go to the first class
  EXPECT_EQ(totals.rows, 4);
  EXPECT_EQ(totals.loss, 2);
  const Tensor binary = from_vector({0.1, 0, -5, 2}, {4, 1}, options());  // guesses 1 0 0 1
  const Tensor truth = from_vector({1, 1, 0, 1}, {4}, options(DType::i64));
  backend().training_step().count_batch(binary, from_vector({1}, {}, options()),
                                        {{}, truth, memory.state()});
  totals = memory.read().totals;
  EXPECT_EQ(totals.correct, 5);
  EXPECT_EQ(totals.rows, 8);
  EXPECT_EQ(totals.loss, 6);
  backend().training_step().count_batch(binary, from_vector({nan}, {}, options()),
                                        {{}, truth, memory.state()});
  EXPECT_EQ(memory.read().totals.rows, 8);
  EXPECT_EQ(memory.read().failure, StepFailure::loss);
}

// For every share of rows and classes that a kernel's threads may have, and for ties, of which the
// first class wins: logits are whole halves. Every other row is right.
TEST_P(StepKernels, CountBatchOfManyRowsAndClasses) {
  for (const Shape& shape : {Shape{5, 3}, {301, 2}, {999, 10}, {71, 2000}, {34'001, 5}}) {
    const int64_t rows = shape[0], classes = shape[1];
    std::vector<double> values = rand_normal(shape, 0, 1, 3, 1).to_vector();
    for (double& value : values) value = std::round(2 * value) / 2;
    std::vector<double> right(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = values.begin() + r * classes;
      const int64_t first = std::max_element(row, row + classes) - row;
      right[static_cast<size_t>(r)] = static_cast<double>((first + r % 2) % classes);
    }
    const Tensor labels = from_vector(right, {rows}, options(DType::i64));
    StepMemory memory(GetParam());
    backend().training_step().count_batch(from_vector(values, shape, options()),
                                          from_vector({0.5}, {}, options()),
                                          {{}, labels, memory.state()});
    const StepTotals totals = memory.read().totals;
    EXPECT_EQ(totals.correct, (rows + 1) / 2) << fmt::format("{}", shape);
    EXPECT_EQ(totals.rows, rows);
    EXPECT_EQ(totals.loss, 0.5 * static_cast<double>(rows));
  }
}

TEST_P(StepKernels, CountBatchOfInfiniteLogits) {
  StepMemory memory(GetParam());
  const Tensor labels = from_vector({1, 0}, {2}, options(DType::i64));
  const Tensor logits = from_vector({-infinity, 1, 0, /**/ 0, -infinity, 1}, {2, 3}, options());
  backend().training_step().count_batch(logits, from_vector({1}, {}, options()),
                                        {{}, labels, memory.state()});
  EXPECT_EQ(memory.read().totals.correct, 1);
  EXPECT_EQ(memory.read().totals.rows, 2);
}

TEST_P(StepKernels, NormOfSeveralPartsAndTypes) {
  StepMemory memory(GetParam());
  const auto add = [&](const Tensor& x) {
    backend().training_step().add_squares(x, &memory.state()->square_sum);
  };
  add(from_vector({3, -4}, {2}, options()));
  add(from_vector({12}, {1}, options(DType::bf16)));
  backend().training_step().begin_update({.clip_norm = 6.5}, memory.state());
  const StepState state = memory.read();
  EXPECT_EQ(state.gradient_norm, 13);
  EXPECT_NEAR(state.gradient_factor, 0.5, 1e-6);
  EXPECT_EQ(state.square_sum, 0);
  EXPECT_EQ(state.steps, 1);
  const Tensor many = full({100'003}, 0.5, options());
  add(many);
  EXPECT_DOUBLE_EQ(memory.read().square_sum, 100'003 * 0.25);
}

TEST_P(StepKernels, MovingAverageAndSwap) {
  const Tensor x = from_vector({3, -4, 12}, {3}, options());
  const Tensor average = from_vector({1, 2, 4}, {3}, options());
  const Tensor updates = zeros({}, options(DType::i64));
  StepMemory memory(GetParam());  // applies is 0
  AverageStep step{.decay = 0.75,
                   .applies = &memory.state()->applies,
                   .updates = static_cast<int64_t*>(updates.raw()),
                   .value = x,
                   .average = average};
  backend().training_step().moving_average(step);
  EXPECT_THAT(average.to_vector(), ElementsAre(1, 2, 4));
  EXPECT_EQ(updates.item(), 0);
  memory.write({.applies = 1});
  backend().training_step().moving_average(step);
  EXPECT_THAT(average.to_vector(), ElementsAre(1.5, 0.5, 6));
  EXPECT_EQ(updates.item(), 1);
  step.applies = nullptr;
  step.warmup = true;  // the second update: 3 / 12
  backend().training_step().moving_average(step);
  EXPECT_THAT(average.to_vector(), ElementsAre(2.625, -2.875, 10.5));
  backend().training_step().swap(x, average);
  EXPECT_THAT(x.to_vector(), ElementsAre(2.625, -2.875, 10.5));
  EXPECT_THAT(average.to_vector(), ElementsAre(3, -4, 12));
}

TEST_P(StepKernels, CopyIf) {
  StepMemory memory(GetParam());
  const Tensor source = from_vector({1, 2}, {2}, options());
  const Tensor target = zeros({2}, options());
  const auto copy = [&] {
    backend().training_step().copy_if(&memory.state()->applies, source.raw(), target.raw(),
                                      target.bytes());
  };
  copy();
  EXPECT_THAT(target.to_vector(), ElementsAre(0, 0));
  memory.write({.applies = 1});
  copy();
  EXPECT_THAT(target.to_vector(), ElementsAre(1, 2));
}

// The offset in device memory is part of the step: what a replayed graph relies on.
TEST_P(StepKernels, DropoutFollowsTheOffset) {
  StepMemory memory(GetParam());
  const Tensor x = ones({999}, options());
  const auto mask = [&](uint64_t step, int64_t offset) {
    memory.write_inputs({.batch = offset});
    RandomKey key{.seed = 7, .stream = 11, .step = step};
    if (offset != 0) key.offset = &memory.state()->inputs.batch;
    return dropout(x, 0.5, key).to_vector();
  };
  EXPECT_EQ(mask(2, 40), mask(42, 0));
  EXPECT_THAT(mask(2, 41), Not(mask(2, 40)));
}

}  // namespace
}  // namespace whisker::test
