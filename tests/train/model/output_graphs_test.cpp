// Captured forward passes: on the host with a capture that records what to call, on a GPU with the
// device's.
#include "train/model/output_graphs.h"

#include "core/autograd/autograd.h"
#include "layers/layers.h"
#include "tests/support/devices.h"

#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

class CalledAgain final : public CapturedGraph {
 public:
  explicit CalledAgain(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

std::unique_ptr<CapturedGraph> call_again(const std::function<void()>& work) {
  return std::make_unique<CalledAgain>(work);
}

Tensor twice_the_sums(const Tensor& x) {
  return affine(sum(x, {1}), 2, 0);
}

Tensor rows(double first, int64_t count = 2) {
  return affine(ones({count, 3}), first, 0);
}

TEST(OutputGraphs, ReplayBatchesOfOneShape) {
  OutputGraphs graphs(cpu_device, call_again);
  std::vector<Tensor> results;
  for (int batch = 1; batch <= 7; ++batch) {
    results.push_back(graphs.run(rows(batch), twice_the_sums));
  }
  EXPECT_EQ(graphs.replays(), 7 - OutputGraphs::warm_up_batches + 1);
  // Earlier results stay as they are.
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].to_vector(), std::vector<double>(2, 6.0 * static_cast<double>(i + 1)));
  }
  EXPECT_EQ(graphs.run(rows(5, 1), twice_the_sums).to_vector(), std::vector<double>(1, 30.0));
}

TEST(OutputGraphs, LeaveFurtherShapesEager) {
  OutputGraphs graphs(cpu_device, call_again);
  for (int64_t count = 1; count <= 6; ++count) {
    for (int64_t batch = 0; batch < OutputGraphs::warm_up_batches; ++batch) {
      EXPECT_EQ(graphs.run(rows(1, count), twice_the_sums).to_vector(),
                std::vector<double>(static_cast<size_t>(count), 6.0));
    }
  }
  EXPECT_EQ(graphs.replays(), 4);
}

// Host devices do not capture; a graph may need more memory than is left.
TEST(OutputGraphs, RunEagerlyWhereNothingIsCaptured) {
  int asked = 0;
  OutputGraphs host(cpu_device);
  OutputGraphs full(cpu_device, [&](const auto&) -> std::unique_ptr<CapturedGraph> {
    ++asked;
    throw OutOfMemory("full", 0);
  });
  for (int batch = 1; batch <= 6; ++batch) {
    EXPECT_EQ(host.run(rows(batch), twice_the_sums).to_vector(),
              std::vector<double>(2, 6.0 * batch));
    EXPECT_EQ(full.run(rows(batch), twice_the_sums).to_vector(),
              std::vector<double>(2, 6.0 * batch));
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(host.replays() + full.replays(), 0);
}

// A second shape whose capture fails: what the first one holds is given back.
TEST(OutputGraphs, GiveUpTogether) {
  std::weak_ptr<int> held;
  OutputGraphs graphs(cpu_device, [&](const std::function<void()>& work) {
    if (!held.expired()) throw OutOfMemory("full", 0);
    const auto token = std::make_shared<int>(0);
    held = token;
    return call_again([work, token] { work(); });
  });
  for (int batch = 1; batch <= 5; ++batch) graphs.run(rows(batch), twice_the_sums);
  ASSERT_EQ(graphs.replays(), 2);
  ASSERT_FALSE(held.expired());
  for (int batch = 1; batch <= 5; ++batch) {
    EXPECT_EQ(graphs.run(rows(batch, 1), twice_the_sums).to_vector(),
              std::vector<double>(1, 6.0 * batch));
  }
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(graphs.run(rows(3), twice_the_sums).to_vector(), std::vector<double>(2, 18.0));
  EXPECT_EQ(graphs.replays(), 2);
}

TEST(OutputGraphs, GiveTheirMemoryToAnotherShape) {
  OutputGraphs graphs(cpu_device, call_again);
  for (int batch = 1; batch <= 5; ++batch) graphs.run(rows(batch), twice_the_sums);
  ASSERT_EQ(graphs.replays(), 2);
  int calls = 0;
  const auto short_once = [&](const Tensor& x) {
    if (++calls == 1) throw OutOfMemory("full", 0);
    return twice_the_sums(x);
  };
  EXPECT_EQ(graphs.run(rows(1, 1), short_once).to_vector(), std::vector<double>(1, 6.0));
  for (int batch = 1; batch <= 5; ++batch) graphs.run(rows(batch), twice_the_sums);
  EXPECT_EQ(graphs.replays(), 2);
  calls = 0;
  EXPECT_THROW(graphs.run(rows(1), short_once), OutOfMemory);
}

TEST(OutputGraphs, GiveWhatEagerPassesGiveOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  const NoGrad inference;
  const Device gpu{DeviceKind::cuda, 0};
  compute_exactly(gpu);
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = 16, .filters = 16, .padding = 1, .bias = false}, "conv");
  body->add<BatchNorm>({.channels = 16}, "bn");
  Sequential net;
  net.add<Conv2D>({.in_channels = 3, .filters = 16, .padding = 1}, "conv");
  net.add_named("block", std::make_shared<Residual>(body, nullptr, Residual::Options{}));
  net.make<GlobalAvgPool2D>();
  net.add<Dense>({.in_features = 16, .units = 3}, "head");
  const ParameterArena arena(net.parameters(), gpu, 1);
  net.fix_weights();
  const auto forward = [&](const Tensor& x) { return net(x.to(gpu)); };
  OutputGraphs graphs(gpu);
  for (uint64_t batch = 1; batch <= 20; ++batch) {  // two shapes in turns, and an odd one
    const int64_t count = batch == 15 ? 3 : batch % 3 == 0 ? 2 : 4;
    const Tensor x = rand_normal({count, 12, 12, 3}, 0, 1, batch, 1);
    const Tensor images = batch % 2 == 0 ? x.to(gpu) : x;  // from either side
    const std::vector<double> got = graphs.run(images, forward).to_vector();
    const std::vector<double> want = forward(images).to_vector();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
  }
  const int64_t fours = 14, twos = 5;
  EXPECT_EQ(graphs.replays(), fours + twos - 2 * (OutputGraphs::warm_up_batches - 1));
}

}  // namespace
}  // namespace whisker::test
