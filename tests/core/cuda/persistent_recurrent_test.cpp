// Recurrent layers by our persistent kernels: states of whole multiples of 32 in types that go
// through tensor cores.
#include "core/autograd.h"
#include "recurrent_case.h"

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

class CudaPersistentRecurrent : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (cuda_device_count() == 0) return;
    if (cuda_gpu(gpu).capability < 90) GTEST_SKIP() << "skipped: compute capability below 9.0";
    CudaOptions options = exact_options();
    options.tf32 = true;
    set_cuda_options(gpu, options);
  }
  // tf32 has f16's mantissa.
  static void expect(const RecurrentCase& s) {
    expect_recurrent(s, DType::f32, DType::f16);
    if (s.kind == RecurrentKind::rnn_relu) return;  // see smooth_recurrent_kinds
    expect_recurrent(s, DType::bf16, DType::bf16);
    expect_recurrent(s, DType::f16, DType::f16);
  }
};

TEST_F(CudaPersistentRecurrent, OfEveryKind) {
  for (const RecurrentKind kind : recurrent_kinds) {
    expect({.kind = kind, .steps = 7, .features = 20, .hidden = 64});
  }
}

// Tiles of sequences that are not full, and more than one.
TEST_F(CudaPersistentRecurrent, OverManySequences) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 5, .batch = 75, .features = 24, .hidden = 96, .layers = 2});
  }
}

// One layer above the other in one kernel, and more layers than a kernel takes.
TEST_F(CudaPersistentRecurrent, AsAWavefrontOfLayers) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 6, .hidden = 32, .layers = 3, .initial = true});
    expect({.kind = kind, .steps = 4, .hidden = 384, .layers = 6, .initial = true});
  }
}

TEST_F(CudaPersistentRecurrent, DeepInBothDirectionsFromAnInitialState) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 6, .hidden = 64, .layers = 2, .directions = 2, .initial = true});
  }
}

TEST_F(CudaPersistentRecurrent, WithoutBias) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 6, .hidden = 64, .layers = 2, .bias = false});
  }
}

TEST_F(CudaPersistentRecurrent, WithDropoutBetweenLayers) {
  expect({.steps = 6, .hidden = 64, .layers = 3, .directions = 2, .dropout = 0.5});
}

TEST_F(CudaPersistentRecurrent, OfOneStep) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 1, .hidden = 64, .layers = 2});
  }
}

TEST_F(CudaPersistentRecurrent, OverSequencesOfTheirOwnLengths) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind,
            .steps = 7,
            .hidden = 64,
            .layers = 2,
            .initial = true,
            .lengths = {7, 3, 0, 1, 7, 6, 5, 2}});
  }
}

// As wide as the networks that it was written for.
TEST_F(CudaPersistentRecurrent, AsWideAsAGpu) {
  expect({.steps = 3, .batch = 64, .features = 256, .hidden = 512, .layers = 2});
  expect({.kind = RecurrentKind::gru, .steps = 3, .batch = 64, .hidden = 512, .layers = 2});
}

TEST_F(CudaPersistentRecurrent, TimedAgainstTheLibrary) {
  CudaOptions options = exact_options();
  options.search_seconds = 60;
  set_cuda_options(gpu, options);
  expect_recurrent({.steps = 7, .hidden = 64, .layers = 2}, DType::bf16, DType::bf16);
  EXPECT_THAT(backend_of(gpu).export_plans(), ::testing::HasSubstr("\"layers lstm bf16"));
}

TEST_F(CudaPersistentRecurrent, ACapturedStepIsTheEagerOneBitForBit) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    const RecurrentCase s{.kind = kind, .steps = 9, .hidden = 64, .layers = 2};
    std::vector<Tensor> leaves;
    uint64_t stream = 0;
    for (const Shape& shape : s.shapes()) {
      leaves.push_back(rand_normal(shape, 0, 1, 3, ++stream, {.device = gpu}).to(DType::bf16));
      leaves.back().set_requires_grad();
    }
    const auto step = [&] { return grad(mean(s.run(leaves)), leaves, {.retain_graph = true}); };
    const std::vector<Tensor> eager = step();
    std::vector<Tensor> replayed;
    for (const Tensor& one : eager) replayed.push_back(zeros(one.shape(), one.options()));
    const auto graph = backend_of(gpu).capture([&] {
      const std::vector<Tensor> got = step();
      for (size_t i = 0; i < got.size(); ++i) replayed[i].copy_(got[i]);
    });
    for (int round = 0; round < 3; ++round) graph->replay();
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(replayed[i].to_vector(), eager[i].to_vector()) << name_of(kind) << " " << i;
    }
  }
}

}  // namespace
}  // namespace whisker::test
