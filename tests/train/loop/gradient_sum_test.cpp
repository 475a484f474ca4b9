// Which gradients are summed together, and when: the buckets cover the arena once, full ones are
// summed during backward in one order, the rest with the flag at its end.
#include "train/loop/gradient_sum.h"

#include "core/ops/ops.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

RankEnvironment second_of_two() {
  RankEnvironment environment;
  environment.rank = 1;
  environment.world = 2;
  return environment;
}

/// Notes what is summed, in groups.
class Noted final : public Communicator {
 public:
  Noted() : Communicator(std::make_shared<RankGroup>(second_of_two())) {}
  void all_reduce(const Tensor& tensor, ReduceKind) override {
    if (!together_) groups.emplace_back();
    groups.back().push_back(tensor);
  }
  void begin_together() override {
    groups.emplace_back();
    together_ = true;
  }
  void end_together() override { together_ = false; }
  void join() override { ++joins; }

  std::vector<std::vector<Tensor>> groups;
  int joins = 0;

 private:
  bool together_ = false;
};

/// Dense layers of 64 KiB and norms' scales: two runs of the arena under bf16.
struct Layers {
  explicit Layers(ArenaTypes types, int count = 8) {
    for (int i = 0; i < count; ++i) {
      for (const bool scale : {false, true}) {
        parameters.push_back(
            std::make_shared<Parameter>(scale ? Shape{128} : Shape{128, 128},
                                        scale ? ParameterRole::norm : ParameterRole::weight,
                                        [](uint64_t, uint64_t, std::span<float> values) {
                                          for (float& value : values) value = 0.01f;
                                        }));
        parameters.back()->set_name(std::to_string(i) + (scale ? "b" : "a"));
      }
    }
    arena = std::make_unique<ParameterArena>(parameters, cpu_device, 1, types);
  }
  Tensor loss() const {
    Tensor x = ones({4, 128}).to(arena->compute_dtype());
    for (size_t i = 0; i < parameters.size(); i += 2) {
      x = linear(x, parameters[i]->value(), {});
      x = mul(x, parameters[i + 1]->value().to(x.dtype()));
    }
    return sum(x.to(DType::f32));
  }

  ParameterList parameters;
  std::unique_ptr<ParameterArena> arena;
};

void expect_covered_once(const ParameterArena& arena, const Noted& ranks) {
  for (const ParameterRun& run : arena.runs()) run.gradient.fill_(1);
  for (const auto& group : ranks.groups) {
    for (const Tensor& part : group) {
      if (part.dtype() == DType::i32) continue;
      const std::vector<double> before = part.to_vector();
      EXPECT_EQ(before, std::vector<double>(before.size(), 1));
      part.fill_(2);
    }
  }
  for (const ParameterRun& run : arena.runs()) {
    const std::vector<double> after = run.gradient.to_vector();
    EXPECT_EQ(after, std::vector<double>(after.size(), 2));
  }
}

TEST(GradientSum, FullBucketsAreSummedWhileBackwardRuns) {
  for (const std::optional<DType> compute : {std::optional<DType>(), std::optional(DType::bf16)}) {
    const Layers layers({.compute = compute});
    StepMemory memory(cpu_device);
    Noted ranks;
    GradientSum sums(*layers.arena, ranks, 2 * 128 * 128 * (compute ? 2 : 4));
    sums.begin();
    layers.arena->zero_grad();
    size_t finished = 0, first_sum = 0;
    BackwardOptions options;
    options.on_leaf = [&](const Tensor& gradient) {
      ++finished;
      sums.finished(gradient);
      if (first_sum == 0 && !ranks.groups.empty()) first_sum = finished;
    };
    backward(layers.loss(), options);
    EXPECT_EQ(finished, layers.parameters.size());
    EXPECT_LE(first_sum, 5u);  // two layers and the next one's scale
    const size_t during = ranks.groups.size();
    EXPECT_GE(during, 3u);
    EXPECT_EQ(ranks.joins, 0);
    layers.arena->complete_gradients();
    sums.enqueue(memory);
    EXPECT_EQ(ranks.groups.size(), during + 1);
    EXPECT_EQ(ranks.groups.back().back().raw(), memory.sound().raw());
    EXPECT_EQ(ranks.joins, 1);
    expect_covered_once(*layers.arena, ranks);

    // A rank without rows, and a network that does not use all: the same groups in the same order.
    Noted others;
    GradientSum at_end(*layers.arena, others, sums.bucket_bytes());
    at_end.begin();
    at_end.enqueue(memory);
    ASSERT_EQ(others.groups.size(), ranks.groups.size());
    for (size_t i = 0; i < others.groups.size(); ++i) {
      ASSERT_EQ(others.groups[i].size(), ranks.groups[i].size());
      for (size_t j = 0; j < others.groups[i].size(); ++j) {
        EXPECT_EQ(others.groups[i][j].raw(), ranks.groups[i][j].raw());
      }
    }
  }
}

TEST(GradientSum, LittleIsLeftWhenBackwardIsOver) {
  const Layers layers({}, 64);
  StepMemory memory(cpu_device);
  Noted ranks;
  GradientSum sums(*layers.arena, ranks, 16 << 20);
  sums.begin();
  sums.enqueue(memory);
  std::vector<int64_t> bytes;
  for (const auto& group : ranks.groups) {
    bytes.push_back(0);
    for (const Tensor& part : group) bytes.back() += part.bytes();
  }
  ASSERT_EQ(bytes.size(), 4u);  // halves, halves of halves, 1 MiB, the rest
  EXPECT_NEAR(static_cast<double>(bytes[0]), 2 << 20, 1 << 17);
  EXPECT_NEAR(static_cast<double>(bytes[1]), 1 << 20, 1 << 17);
  EXPECT_LT(bytes.back(), 1 << 17);
  expect_covered_once(*layers.arena, ranks);
}

TEST(GradientSum, DoesNothingForOneRank) {
  const Layers layers({});
  Communicator alone(std::make_shared<RankGroup>());
  StepMemory memory(cpu_device);
  GradientSum sums(*layers.arena, alone);
  sums.begin();
  sums.enqueue(memory);
  EXPECT_EQ(alone.waited_seconds(), 0);
}

}  // namespace
}  // namespace whisker::test
