// Recurrent layers on the GPU against the reference, wider than the operator table's: every kind,
// depth, direction, projection, length and mask, with the standard algorithm and a timed one.
#include "core/autograd/autograd.h"
#include "recurrent_case.h"

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

class CudaRecurrent : public GpuTest {
 protected:
  static void expect(const RecurrentCase& s, std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) expect_recurrent(s, dtype, dtype);
  }
};

TEST_F(CudaRecurrent, OfEveryKind) {
  for (const RecurrentKind kind : recurrent_kinds) expect({.kind = kind}, {DType::f32});
}

TEST_F(CudaRecurrent, DeepInBothDirectionsFromAnInitialState) {
  for (const RecurrentKind kind : recurrent_kinds) {
    expect({.kind = kind, .layers = 2, .directions = 2, .initial = true}, {DType::f32});
  }
}

TEST_F(CudaRecurrent, WithoutBias) {
  for (const RecurrentKind kind : recurrent_kinds)
    expect({.kind = kind, .bias = false}, {DType::f32});
}

TEST_F(CudaRecurrent, InSixteenBits) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 6}, {DType::bf16, DType::f16});
  }
}

TEST_F(CudaRecurrent, WithAProjection) {
  expect({.projection = 16, .layers = 2, .initial = true}, {DType::f32});
}

TEST_F(CudaRecurrent, WithDropoutBetweenLayers) {
  for (const RecurrentKind kind : recurrent_kinds) {
    expect({.kind = kind, .layers = 3, .directions = 2, .dropout = 0.5}, {DType::f32});
  }
}

TEST_F(CudaRecurrent, OverSequencesOfTheirOwnLengths) {
  const std::vector<double> lengths = {17, 3, 9, 1, 17, 12, 5, 2};
  for (const RecurrentKind kind : recurrent_kinds) {
    expect({.kind = kind, .layers = 2, .directions = 2, .initial = true, .lengths = lengths},
           {DType::f32});
  }
  expect({.layers = 2, .lengths = lengths, .dropout = 0.25}, {DType::f32});
}

TEST_F(CudaRecurrent, ByTheFastestAlgorithm) {
  CudaOptions options = exact_options();
  options.search_seconds = time_for_any_search;
  set_cuda_options(gpu, options);
  for (const RecurrentKind kind : recurrent_kinds) {
    expect({.kind = kind, .batch = 16, .hidden = 64, .layers = 2}, {DType::f32});
  }
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .batch = 16, .hidden = 64, .layers = 2}, {DType::bf16});
  }
  EXPECT_THAT(backend_of(gpu).export_algorithms(), ::testing::HasSubstr("\"recurrent\":{\""));
}

// Gradients are read from what the forward pass left, which must outlive the first walk.
TEST_F(CudaRecurrent, ARetainedGraphRunsAgain) {
  const RecurrentCase s{.layers = 2};
  std::vector<Tensor> leaves;
  uint64_t stream = 0;
  for (const Shape& shape : s.shapes()) {
    leaves.push_back(rand_normal(shape, 0, 1, 3, ++stream, {.device = gpu}).set_requires_grad());
  }
  const Tensor loss = mean(s.run(leaves));
  const std::vector<Tensor> first = grad(loss, leaves, {.retain_graph = true});
  const std::vector<Tensor> second = grad(loss, leaves);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].to_vector(), second[i].to_vector()) << i;
  }
}

TEST_F(CudaRecurrent, ACapturedStepIsTheEagerOne) {
  const RecurrentCase s{.layers = 2};
  std::vector<Tensor> leaves;
  uint64_t stream = 0;
  for (const Shape& shape : s.shapes()) {
    leaves.push_back(rand_normal(shape, 0, 1, 3, ++stream, {.device = gpu}).set_requires_grad());
  }
  const auto step = [&] { return grad(mean(s.run(leaves)), leaves); };
  const std::vector<Tensor> eager = step();
  std::vector<Tensor> replayed;
  for (const Tensor& gradient : eager) replayed.push_back(zeros(gradient.shape(), {.device = gpu}));
  const auto graph = backend_of(gpu).capture([&] {
    const std::vector<Tensor> got = step();
    for (size_t i = 0; i < got.size(); ++i) replayed[i].copy_(got[i]);
  });
  for (int round = 0; round < 3; ++round) graph->replay();
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(close(replayed[i].to_vector(), eager[i].to_vector(), 1e-6, 0)) << i;
  }
}

}  // namespace
}  // namespace whisker::test
