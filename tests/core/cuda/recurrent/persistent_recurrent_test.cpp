// Recurrent layers by our persistent kernels: states of whole multiples of 32 in types that go
// through tensor cores.
#include "core/autograd/autograd.h"
#include "core/backend/recurrent.h"
#include "recurrent_case.h"

#include <algorithm>
#include <cmath>

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
    expect_recurrent(s, DType::bf16, DType::bf16);
    expect_recurrent(s, DType::f16, DType::f16);
  }
};

TEST_F(CudaPersistentRecurrent, OfEverySmoothKind) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 7, .features = 20, .hidden = 64});
    expect({.kind = kind, .steps = 6, .hidden = 64, .layers = 2, .directions = 2, .initial = true});
    expect({.kind = kind, .steps = 6, .hidden = 64, .layers = 2, .bias = false});
    expect({.kind = kind, .steps = 1, .hidden = 64, .layers = 2});
  }
}

// The gemms between them by own kernels, too, so that racecheck, which the libraries' kernels
// break, can look at them.
TEST_F(CudaPersistentRecurrent, WithoutLibraries) {
  CudaOptions options = cuda_options(gpu);
  options.without_libraries = true;
  set_cuda_options(gpu, options);
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 5, .features = 20, .hidden = 64, .layers = 2, .initial = true});
    expect({.kind = kind, .steps = 3, .batch = 40, .hidden = 96, .directions = 2});
  }
}

// On numbers with few bits, whose sums every type holds exactly: see smooth_recurrent_kinds.
TEST_F(CudaPersistentRecurrent, OfReluOnExactNumbers) {
  constexpr int64_t steps = 2, batch = 5, features = 8, hidden = 32;
  const auto numbers = [](const Shape& shape, double unit, uint64_t stream) {
    std::vector<double> values = rand_normal(shape, 0, 1, 7, stream).to_vector();
    for (double& value : values) value = unit * std::clamp(std::round(value), -1.0, 1.0);
    return values;
  };
  const std::vector<Shape> shapes = {
      {steps, batch, features}, {hidden, features}, {hidden, hidden}, {hidden}, {hidden}};
  const auto run = [&](Device device, DType dtype) {
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < shapes.size(); ++i) {
      leaves.push_back(from_vector(numbers(shapes[i], i == 0 ? 1 : 0.125, i + 1), shapes[i],
                                   {.dtype = dtype, .device = device}));
      leaves.back().set_requires_grad();
    }
    const std::vector<RecurrentParameters> parameters = {
        {.w_ih = leaves[1], .w_hh = leaves[2], .b_ih = leaves[3], .b_hh = leaves[4]}};
    const Tensor y = recurrent(leaves[0], parameters, {.kind = RecurrentKind::rnn_relu}).y;
    std::vector<std::vector<double>> all = {y.to_vector()};
    for (const Tensor& gradient : grad(sum(y), leaves)) all.push_back(gradient.to_vector());
    return all;
  };
  const auto expected = run(reference_device, DType::f32);
  EXPECT_THAT(expected[0], ::testing::Contains(0)) << "nothing below zero";
  EXPECT_THAT(expected[0], ::testing::Contains(::testing::Gt(0)));
  EXPECT_EQ(run(gpu, DType::f32), expected);
  EXPECT_EQ(run(gpu, DType::f16), expected);
}

// Tiles of sequences that are not full, and more than one.
TEST_F(CudaPersistentRecurrent, OverManySequences) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 5, .batch = 75, .features = 24, .hidden = 96, .layers = 2});
  }
}

// Stacked layers in one kernel, and more layers than fit one kernel.
TEST_F(CudaPersistentRecurrent, AsAWavefrontOfLayers) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 6, .hidden = 32, .layers = 3, .initial = true});
    expect({.kind = kind, .steps = 4, .hidden = 384, .layers = 6, .initial = true});
  }
}

TEST_F(CudaPersistentRecurrent, WithDropoutBetweenLayers) {
  expect({.steps = 6, .hidden = 64, .layers = 3, .directions = 2, .dropout = 0.5});
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

// What forward leaves tells who computed it.
TEST_F(CudaPersistentRecurrent, ComputeWhatTheyFit) {
  const RecurrentGeometry fits{.kind = RecurrentKind::lstm,
                               .steps = 4,
                               .batch = 8,
                               .features = 16,
                               .hidden = 64,
                               .dtype = DType::bf16};
  Backend& backend = backend_of(gpu);
  constexpr int64_t gates = 4 * 8 * 4 * 64 * 2, cells = 4 * 8 * 64 * 4;
  EXPECT_EQ(backend.recurrent().reserve_bytes(fits), gates + cells);
  RecurrentGeometry odd = fits;
  odd.hidden = 72;
  EXPECT_NE(backend.recurrent().reserve_bytes(odd), (gates + cells) / 64 * 72) << "not cuDNN's";
  CudaOptions options = exact_options();
  options.tf32 = options.deterministic = true;
  set_cuda_options(gpu, options);
  EXPECT_EQ(backend.recurrent().reserve_bytes(fits), gates + cells);
  RecurrentGeometry exact = fits;
  exact.dtype = DType::f32;
  EXPECT_NE(backend.recurrent().reserve_bytes(exact), 2 * gates + cells) << "not cuDNN's";
}

// As wide as the networks that it was written for; f32 in tiles of 64 rows, too.
TEST_F(CudaPersistentRecurrent, AsWideAsAGpu) {
  expect_recurrent({.steps = 2, .batch = 128, .hidden = 512}, DType::f32, DType::f16);
  expect({.steps = 3, .batch = 64, .features = 256, .hidden = 512, .layers = 2});
  expect({.kind = RecurrentKind::gru, .steps = 3, .batch = 64, .hidden = 512, .layers = 2});
}

// Over hundreds of steps, where a slice that is read too early would show.
TEST_F(CudaPersistentRecurrent, ACapturedStepIsTheEagerOneBitForBit) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    const RecurrentCase s{.kind = kind, .steps = 600, .batch = 40, .hidden = 256, .layers = 2};
    const std::vector<Tensor> leaves = random_leaves(s, DType::bf16);
    const auto step = [&] { return grad(mean(scaled_result(s, leaves)), leaves); };
    const std::vector<Tensor> eager = step();
    const Tensor loss = mean(scaled_result(s, leaves));
    const std::vector<Tensor> first = grad(loss, leaves, {.retain_graph = true});
    const std::vector<Tensor> again = grad(loss, leaves);
    const CapturedResults replayed(eager, step);
    for (int round = 0; round < 20; ++round) {
      replayed.graph->replay();
      for (size_t i = 0; i < eager.size(); ++i) {
        ASSERT_EQ(replayed.results[i].to_vector(), eager[i].to_vector())
            << name_of(kind) << " " << i;
      }
    }
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(first[i].to_vector(), eager[i].to_vector()) << name_of(kind) << " " << i;
      EXPECT_EQ(again[i].to_vector(), eager[i].to_vector()) << name_of(kind) << " walked again";
    }
  }
}

}  // namespace
}  // namespace whisker::test
