// Convolutions and batch norms that hand each other sums or are one operator train as they do
// unfused, on a GPU in f16, where cuDNN fuses them.
#include "core/backend/backend.h"
#include "core/nvidia/cuda_library.h"
#include "core/trace/tape_listing.h"
#include "layers/layers.h"
#include "tests/layers/step_training.h"
#include "tests/support/poisoned_memory.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::relative_error;

constexpr ActivationSpec relu_spec{.kind = Activation::relu};
constexpr Device gpu{DeviceKind::cuda, 0};

std::shared_ptr<Sequential> body_of(int64_t channels, int64_t stride) {
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = channels, .filters = 16, .kernel = 1, .bias = false}, "conv1");
  body->add<BatchNorm>({.channels = 16, .activation = relu_spec}, "bn1");
  body->add<Conv2D>(
      {.in_channels = 16, .filters = 24, .stride = stride, .padding = 1, .bias = false}, "conv2");
  body->add<BatchNorm>({.channels = 24, .activation = relu_spec}, "bn2");
  body->add<Conv2D>({.in_channels = 24, .filters = 32, .kernel = 1, .bias = false}, "conv3");
  body->add<BatchNorm>({.channels = 32}, "bn3");
  return body;
}

/// Three bottleneck blocks (He et al. 2015, fig. 5), the first with a projection.
std::shared_ptr<Sequential> network(bool fuse) {
  auto projection = std::make_shared<Sequential>();
  projection->add<Conv2D>(
      {.in_channels = 8, .filters = 32, .kernel = 1, .stride = 2, .bias = false}, "conv");
  projection->add<BatchNorm>({.channels = 32}, "bn");
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .bias = false}, "stem");
  net->add<BatchNorm>({.channels = 8, .activation = relu_spec}, "stem_bn");
  const auto add_block = [&](const char* name, std::shared_ptr<Sequential> body,
                             std::shared_ptr<Sequential> shortcut) {
    net->add_named(name, std::make_shared<Residual>(body, shortcut, Residual::Options{}));
  };
  add_block("block1", body_of(8, 2), projection);
  add_block("block2", body_of(32, 1), nullptr);
  add_block("block3", body_of(32, 1), nullptr);
  net->make<GlobalAvgPool2D>();
  net->add<Dense>({.in_features = 32, .units = 3}, "head");
  net->set_fuse(fuse);
  return net;
}

class Training : public test::StepTraining {
 public:
  Training(Device device, std::optional<DType> compute, bool fuse,
           const std::vector<std::string>& frozen = {})
      : StepTraining(network(fuse), {8, 16, 16, 3}, device, compute, frozen) {}
};

const std::vector<std::string> freezings[] = {{}, {"block1.bn1"}, {"stem", "stem_bn", "block1"}};

/// How many batch norms a step computes with the convolution behind them, and how many with
/// another batch norm.
struct Fused {
  int64_t inside = 0, residual_tails = 0, pairs = 0;
};
Fused fused_in(Training& training) {
  TapeListing listing;
  training.step();
  const std::vector<TapeEntry> entries = listing.entries();
  return {.inside = std::ranges::count(entries, "batch_norm_conv2d", &TapeEntry::name),
          .residual_tails = std::ranges::count(entries, "batch_norm_add_conv2d", &TapeEntry::name),
          .pairs = std::ranges::count(entries, "add_batch_norms", &TapeEntry::name)};
}

class CudaFusedLayers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    before_ = cuda_options(gpu);
    poisoned_.emplace(gpu);
  }
  void TearDown() override {
    if (cuda_device_count() > 0) set_cuda_options(gpu, before_);
  }
  static void use(ConvNormFusion fusion, double search_seconds = 0, bool deterministic = false) {
    CudaOptions options;
    options.deterministic = deterministic;
    options.conv_norm_fusion = fusion;
    options.search_seconds = search_seconds;
    set_cuda_options(gpu, options);
  }

 private:
  CudaOptions before_;
  std::optional<test::PoisonedMemory> poisoned_;
};

// As near to the f32 network as layers apart in f16 are: rounding turns some of relu's gradients on
// and off in both.
TEST_F(CudaFusedLayers, TrainAsUnfused) {
  for (const auto& frozen : freezings) {
    Training exact(cpu_device, {}, true, frozen);
    exact.step();
    const auto expected = exact.results();
    std::vector<double> errors[2];
    for (const auto fusion : {ConvNormFusion::never, ConvNormFusion::always}) {
      use(fusion);
      Training narrow(gpu, DType::f16, true, frozen);
      const Fused fused = fused_in(narrow);
      if (fusion == ConvNormFusion::never) {
        EXPECT_EQ(fused.inside + fused.residual_tails, 0);
        EXPECT_EQ(fused.pairs, frozen.size() < 3 ? 1 : 0) << "at the end of the first block";
      } else if (frozen.empty()) {
        EXPECT_EQ(fused.inside, 6) << "two in each block";
        EXPECT_EQ(fused.residual_tails, 1) << "between the last blocks";
        EXPECT_EQ(fused.pairs, 1) << "at the end of the first block";
      } else {
        EXPECT_LT(fused.inside, 6);
      }
      const auto got = narrow.results();
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].first, expected[i].first);
        errors[fusion == ConvNormFusion::always].push_back(
            relative_error(got[i].second, expected[i].second));
      }
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(errors[1][i], 2 * errors[0][i] + 0.01) << expected[i].first;
    }
  }
}

/// Mean over what a step gives of the relative error.
double mean_error(const test::StepResults& got, const test::StepResults& want) {
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i) sum += relative_error(got[i].second, want[i].second);
  return sum / static_cast<double>(want.size());
}

/// How far captured steps, and eager ones of another training, are from eager ones: means over
/// steps with differing batches, after three steps in which every choice is made.
struct Distances {
  double of_captured = 0, of_eager = 0;
};
Distances distances_of_captured_steps() {
  Training settling(gpu, DType::f16, true);
  for (int step = 0; step < 3; ++step) settling.step();
  Training eager(gpu, DType::f16, true), again(gpu, DType::f16, true);
  Training captured(gpu, DType::f16, true);
  for (Training* training : {&eager, &again, &captured}) {
    for (int warm_up = 0; warm_up < 3; ++warm_up) training->step();
  }
  const auto graph = backend_of(gpu).capture([&] { captured.step(); });
  if (!graph) throw std::logic_error("a GPU captures steps");
  Distances mean;
  constexpr uint64_t batches = 40;
  auto before = eager.results();
  for (uint64_t batch = 2; batch < 2 + batches; ++batch) {
    for (Training* training : {&eager, &again, &captured}) training->show_batch(batch);
    eager.step();
    again.step();
    graph->replay();
    backend_of(gpu).synchronize();
    const auto expected = eager.results();
    mean.of_captured += mean_error(captured.results(), expected) / batches;
    mean.of_eager += mean_error(again.results(), expected) / batches;
    EXPECT_GT(relative_error(before[0].second, expected[0].second), 0.1) << "the same batch";
    before = expected;
  }
  return mean;
}

// Last bits of cuDNN's sums change from step to step, and turn some of relu's gradients on and off.
TEST_F(CudaFusedLayers, CapturedStepsAreAsNearToEagerOnesAsTheseToEachOther) {
  use(ConvNormFusion::always, 60);
  const Distances d = distances_of_captured_steps();
  EXPECT_LT(d.of_eager, 0.01);
  EXPECT_LE(d.of_captured, 3 * d.of_eager);
}

TEST_F(CudaFusedLayers, CapturedStepsAreEagerOnesWhereSumsRepeat) {
  use(ConvNormFusion::faster, 60, true);
  const Distances d = distances_of_captured_steps();
  EXPECT_EQ(d.of_eager, 0);
  EXPECT_EQ(d.of_captured, 0);
}

}  // namespace
}  // namespace whisker
