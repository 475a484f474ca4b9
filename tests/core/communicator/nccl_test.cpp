// NCCL on one GPU in one process: a world of one, whose collectives change nothing but must run,
// alone, together, beside operators and in captured graphs. Two ranks: tests/apps/nccl_test.py.
#include "core/backend/backend.h"
#include "core/communicator/nccl_communicator.h"
#include "core/error.h"
#include "core/ops/ops.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr Device gpu{DeviceKind::cuda, 0};

class NcclOfOne : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: " << why_no_cuda();
    try {
      ranks = std::make_unique<NcclCommunicator>(group, gpu);
    } catch (const Error& error) {
      GTEST_SKIP() << "skipped: " << error.what();
    }
    RecordProperty("nccl", ranks->description());
  }
  /// Of this dtype: 0, 1, ... 999.
  static Tensor numbers(DType dtype) { return arange(1000, {.dtype = dtype}).to(gpu); }
  static std::vector<double> counted() { return arange(1000, {.dtype = DType::f64}).to_vector(); }

  std::shared_ptr<RankGroup> group = std::make_shared<RankGroup>();
  std::unique_ptr<NcclCommunicator> ranks;
};

TEST_F(NcclOfOne, CollectivesLeaveItsNumbers) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32}) {
    const Tensor x = numbers(dtype);
    const std::vector<double> before = x.to_vector();
    ranks->all_reduce(x, ReduceKind::sum);
    ranks->all_reduce(x, ReduceKind::min);
    ranks->broadcast(x);
    const Tensor all = zeros({1, 1000}, {.dtype = dtype, .device = gpu});
    ranks->all_gather(x, all);
    EXPECT_EQ(x.to_vector(), before);
    EXPECT_EQ(all.to_vector(), before);
  }
}

TEST_F(NcclOfOne, CollectivesOfSeveralTypesGoTogether) {
  const Tensor wide = numbers(DType::f32), narrow = numbers(DType::bf16),
               flag = numbers(DType::i32);
  const std::vector<double> rounded = narrow.to_vector();
  ranks->begin_together();
  ranks->all_reduce(wide, ReduceKind::sum);
  ranks->all_reduce(narrow, ReduceKind::sum);
  ranks->all_reduce(flag, ReduceKind::min);
  ranks->end_together();
  EXPECT_EQ(wide.to_vector(), counted());
  EXPECT_EQ(narrow.to_vector(), rounded);
  EXPECT_EQ(flag.to_vector(), counted());
}

TEST_F(NcclOfOne, ACapturedGraphHoldsThemBesideOperators) {
  const Tensor x = numbers(DType::f32), y = zeros({1000}, {.device = gpu});
  const Tensor all = zeros({1, 1000}, {.device = gpu});
  const auto step = [&] {
    x.copy_(affine(x, 1, 1));
    ranks->begin_beside();
    ranks->all_reduce(x, ReduceKind::sum);  // must wait for x, and the copy below for it
    ranks->end_beside();
    const Tensor busy = exp(full({1 << 20}, 1, {.device = gpu}));
    ranks->begin_beside();
    ranks->begin_together();
    ranks->all_reduce(busy, ReduceKind::sum);
    ranks->broadcast(x);
    ranks->end_together();
    ranks->end_beside();
    ranks->join();
    y.copy_(x);
    ranks->all_gather(y, all);  // not beside
  };
  step();
  auto graph = backend_of(gpu).capture(step);
  ASSERT_NE(graph, nullptr);
  for (int i = 0; i < 50; ++i) graph->replay();
  backend_of(gpu).synchronize();
  std::vector<double> want = counted();
  for (double& value : want) value += 51;
  EXPECT_EQ(y.to_vector(), want);
  EXPECT_EQ(all.to_vector(), want);
  EXPECT_GE(ranks->waited_seconds(), 0);
  EXPECT_LT(ranks->waited_seconds(), 1);
  step();  // eager again, after the graph
  graph->replay();
  EXPECT_EQ(y.to_vector()[0], 53);
  graph.reset();  // before the communicator, which waits for it
}

TEST_F(NcclOfOne, MemoryIsRegisteredOrNot) {
  const Tensor x = full({1 << 22}, 3, {.device = gpu});
  const auto registered = ranks->register_memory(x);
  RecordProperty("registered", registered ? "yes" : "no");
  ranks->all_reduce(x, ReduceKind::sum);
  EXPECT_EQ(min(x).item(), 3);
  EXPECT_EQ(max(x).item(), 3);
}

TEST_F(NcclOfOne, NothingIsBroken) {
  EXPECT_EQ(group->collectives_error(), "");
  group->abort_collectives();
  EXPECT_EQ(group->collectives_error(), "");
  ranks.reset();
  group->abort_collectives();  // there are none any more
}

TEST_F(NcclOfOne, AnErrorOnTheWayAborts) {
  EXPECT_THROW(
      {
        const NcclCommunicator local(group, gpu);
        fail(ErrorKind::data, "meanwhile");
      },
      Error);
  EXPECT_EQ(affine(full({2}, 1, {.device = gpu}), 2, 0).to_vector(), std::vector<double>({2, 2}));
}

}  // namespace
}  // namespace whisker::test
