// Captured steps: the same bits as eager ones, memory of their own, and a backend that is as good
// as new after a capture that failed.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/core/cuda/small_training.h"
#include "tests/support/error_of.h"
#include "tests/support/tolerance.h"

namespace whisker::test {
namespace {

class CudaCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    CudaOptions options = exact_options();
    options.deterministic = true;
    set_cuda_options(gpu, options);
  }
  Backend& backend() { return backend_of(gpu); }
};

TEST_F(CudaCapture, ReplaysAreTheEagerStepsBitByBit) {
  SmallTraining eager(gpu), captured(gpu);
  for (int64_t batch = 0; batch < 3; ++batch) {  // warm-up: libraries choose their algorithms
    for (SmallTraining* training : {&eager, &captured}) {
      training->load(batch);
      training->step();
    }
  }
  ASSERT_EQ(eager.weights(), captured.weights());
  captured.load(3);
  const auto graph = backend().capture([&] { captured.step(); });
  ASSERT_NE(graph, nullptr);
  for (int64_t batch = 3; batch < 13; ++batch) {
    eager.load(batch);
    eager.step();
    captured.load(batch);
    graph->replay();
    ASSERT_EQ(eager.weights(), captured.weights()) << "after batch " << batch;
  }
  const StepState want = eager.state(), got = captured.state();
  EXPECT_EQ(want.totals.loss, got.totals.loss);
  EXPECT_EQ(want.totals.correct, got.totals.correct);
  EXPECT_EQ(got.totals.rows, 13 * 16);
  EXPECT_EQ(got.steps, 13);
  EXPECT_EQ(got.failure, StepFailure::none);
}

// Many small kernels launched with PDL: none may begin before its predecessor is done.
TEST_F(CudaCapture, ChainsOfSmallLayersKeepTheirOrder) {
  constexpr uint64_t layers = 40;
  const auto normal = [](const Shape& shape, uint64_t stream, Device device) {
    return rand_normal(shape, 0, 0.25, 7, stream, {.device = reference_device}).to(device);
  };
  const auto leaves_on = [&](Device device) {
    std::vector<Tensor> leaves;  // weights, then bias, of each layer
    for (uint64_t i = 0; i < layers; ++i) {
      leaves.push_back(normal({32, 32}, 2 * i, device).set_requires_grad());
      leaves.push_back(normal({32}, 2 * i + 1, device).set_requires_grad());
    }
    return leaves;
  };
  const auto gradients = [](const Tensor& x, const std::vector<Tensor>& leaves) {
    Tensor y = x;
    for (size_t i = 0; i < leaves.size(); i += 2) {
      y = linear(y, leaves[i], leaves[i + 1], {.kind = Activation::tanh});
    }
    return grad(mean(mul(y, y)), leaves);
  };
  const std::vector<Tensor> want =
      gradients(normal({32, 32}, 1000, reference_device), leaves_on(reference_device));
  const Tensor x = normal({32, 32}, 1000, gpu);
  const std::vector<Tensor> leaves = leaves_on(gpu);
  const std::vector<Tensor> eager = gradients(x, leaves);
  const CapturedResults replayed(eager, [&] { return gradients(x, leaves); });
  for (int round = 0; round < 20; ++round) {
    for (const Tensor& gradient : replayed.results) gradient.fill_(round);
    replayed.graph->replay();
    for (size_t i = 0; i < eager.size(); ++i) {
      ASSERT_EQ(replayed.results[i].to_vector(), eager[i].to_vector()) << round << ", " << i;
    }
  }
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(close(eager[i].to_vector(), want[i].to_vector(), 1e-3, 1)) << "parameter " << i;
  }
}

TEST_F(CudaCapture, AGraphsMemoryServesNobodyElse) {
  const Tensor x = full({1 << 20}, 2, {.device = gpu});
  const Tensor y = empty_like(x);
  const auto graph = backend().capture([&] { y.copy_(affine(affine(x, 3, 1), 2, 0)); });
  // Were the graph's intermediate memory given to these, the replay would write into them.
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(full({1 << 20}, 5, {.device = gpu}));
  graph->replay();
  for (const Tensor& other : others) {
    EXPECT_EQ(min(other).item(), 5);
    EXPECT_EQ(max(other).item(), 5);
  }
  EXPECT_EQ(min(y).item(), 14);
  EXPECT_EQ(max(y).item(), 14);
}

TEST_F(CudaCapture, MemoryFreedWhileCapturingStaysTheGraphs) {
  Tensor x = full({1 << 20}, 2, {.device = gpu});
  const Tensor y = empty_like(x);
  const auto graph = backend().capture([&] {
    y.copy_(affine(x, 3, 1));
    x = Tensor();  // the graph still reads it
  });
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(full({1 << 20}, 9, {.device = gpu}));
  graph->replay();
  EXPECT_EQ(min(y).item(), 7);
  EXPECT_EQ(max(y).item(), 7);
}

TEST_F(CudaCapture, WhatAGraphHeldIsUsedAgain) {
  const Tensor x = full({1 << 22}, 2, {.device = gpu});
  const Tensor y = zeros(x.shape(), x.options());
  const MemoryStats before = backend().memory_stats();
  for (int i = 0; i < 20; ++i) {
    const auto graph = backend().capture([&] { y.copy_(affine(affine(x, 3, 1), 2, 0)); });
    graph->replay();
  }
  backend().empty_cache();
  EXPECT_EQ(backend().memory_stats().allocated, before.allocated);
  EXPECT_LE(backend().memory_stats().reserved, before.reserved + (4 << 20));
}

TEST_F(CudaCapture, AnErrorWhileCapturingIsPassedOnAndForgotten) {
  const Tensor x = full({1000}, 2, {.device = gpu});
  const MemoryStats before = backend().memory_stats();
  const auto failing = [&] {
    affine(x, 3, 1);
    fail(ErrorKind::usage, "the caller's own");
  };
  EXPECT_EQ(message_of(ErrorKind::usage, [&] { backend().capture(failing); }), "the caller's own");
  // Waiting within a capture cannot work; it must not break what follows either.
  EXPECT_THROW(backend().capture([&] { affine(x, 3, 1).item(); }), Error);
  EXPECT_EQ(affine(x, 3, 1).to_vector(), std::vector<double>(1000, 7));
  EXPECT_EQ(backend().memory_stats().allocated, before.allocated);
  const Tensor y = empty_like(x);
  const auto graph = backend().capture([&] { y.copy_(affine(x, 4, 0)); });
  graph->replay();
  EXPECT_EQ(y.to_vector(), std::vector<double>(1000, 8));
}

TEST_F(CudaCapture, AThousandStepsLeaveMemoryAsItWas) {
  SmallTraining training(gpu);
  const auto run = [&](int64_t from, int64_t to, CapturedGraph* graph) {
    for (int64_t batch = from; batch < to; ++batch) {
      training.load(batch);
      graph ? graph->replay() : training.step();
    }
    backend().synchronize();
  };
  run(0, 10, nullptr);
  const MemoryStats warm = backend().memory_stats();
  run(10, 510, nullptr);
  EXPECT_EQ(backend().memory_stats().allocated, warm.allocated);
  EXPECT_EQ(backend().memory_stats().reserved, warm.reserved);
  const auto graph = backend().capture([&] { training.step(); });
  const MemoryStats captured = backend().memory_stats();
  run(510, 1010, graph.get());
  EXPECT_EQ(backend().memory_stats().allocated, captured.allocated);
  EXPECT_EQ(backend().memory_stats().reserved, captured.reserved);
  EXPECT_EQ(training.state().steps, 1010);
}

}  // namespace
}  // namespace whisker::test
