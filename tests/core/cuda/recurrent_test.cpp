// Recurrent layers on the GPU against the reference, wider than the operator table's: every kind,
// depth, direction, projection, length and mask, with the standard algorithm and a timed one.
#include "core/autograd.h"
#include "core/ops.h"
#include "gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

#include <cmath>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

struct Case {
  RecurrentKind kind = RecurrentKind::lstm;
  int64_t steps = 17, batch = 8, features = 24, hidden = 40;
  int64_t projection = 0, layers = 1, directions = 1;
  bool bias = true, initial = false;
  std::vector<double> lengths = {};
  double dropout = 0;

  bool is_lstm() const { return kind == RecurrentKind::lstm; }
  int64_t gates() const { return is_lstm() ? 4 : kind == RecurrentKind::gru ? 3 : 1; }
  int64_t output() const { return projection > 0 ? projection : hidden; }
  int64_t cells() const { return layers * directions; }
  std::string name(DType dtype) const {
    return fmt::format(
        "{} {} layers {} directions {} projection {} bias {} initial {} lengths {} "
        "dropout {}",
        name_of(kind), name_of(dtype), layers, directions, projection, bias, initial,
        !lengths.empty(), dropout);
  }

  /// x, then each cell's parameters, then the initial states.
  std::vector<Shape> shapes() const {
    std::vector<Shape> all = {{steps, batch, features}};
    for (int64_t cell = 0; cell < cells(); ++cell) {
      const int64_t inputs = cell < directions ? features : directions * output();
      all.push_back({gates() * hidden, inputs});
      all.push_back({gates() * hidden, output()});
      if (bias) all.push_back({gates() * hidden});
      if (bias) all.push_back({gates() * hidden});
      if (projection > 0) all.push_back({projection, hidden});
    }
    if (initial) all.push_back({cells(), batch, output()});
    if (initial && is_lstm()) all.push_back({cells(), batch, hidden});
    return all;
  }

  /// y and the last states, one after the other.
  Tensor run(Operands x) const {
    size_t next = 1;
    // Weights as small as layers begin with: states stay away from the ends of their range, and
    // steps do not amplify what rounding left.
    const double scale = 0.6 / std::sqrt(static_cast<double>(hidden));
    const auto weight = [&] { return affine(x[next++], scale, 0); };
    std::vector<RecurrentParameters> parameters;
    for (int64_t cell = 0; cell < cells(); ++cell) {
      RecurrentParameters p;
      p.w_ih = weight();
      p.w_hh = weight();
      if (bias) p.b_ih = weight();
      if (bias) p.b_hh = weight();
      if (projection > 0) p.w_hr = weight();
      parameters.push_back(p);
    }
    RecurrentOptions options{.kind = kind,
                             .bidirectional = directions == 2,
                             .dropout = dropout,
                             .key = {.seed = 5, .stream = 6, .step = 7}};
    if (initial) options.initial.h = x[next++];
    if (initial && is_lstm()) options.initial.c = x[next++];
    if (!lengths.empty()) {
      options.lengths =
          from_vector(lengths, {batch}, {.dtype = DType::i64, .device = x[0].device()});
    }
    const RecurrentResult result = recurrent(x[0], parameters, options);
    std::vector<Tensor> parts = {result.y.reshape({-1}), result.last.h.reshape({-1})};
    if (is_lstm()) parts.push_back(result.last.c.reshape({-1}));
    return concat(parts, 0);
  }
};

class CudaRecurrent : public GpuTest {
 protected:
  static void expect(const Case& s, std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) {
      expect_agreement({.name = s.name(dtype),
                        .shapes = s.shapes(),
                        .function = [s](Operands x) { return s.run(x); },
                        // Room for another library's sigmoid and tanh at every step.
                        .tolerance = 2e-5 + tolerance(dtype, s.steps * s.batch * s.layers),
                        .dtype = dtype,
                        .device = gpu});
    }
  }
};

constexpr RecurrentKind kinds[] = {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu,
                                   RecurrentKind::lstm, RecurrentKind::gru};

// Of rnn_relu the operator's table has small cases in 16 bits: over several steps its slope hangs
// on which side of zero a rounded sum falls.
constexpr RecurrentKind smooth_kinds[] = {RecurrentKind::rnn_tanh, RecurrentKind::lstm,
                                          RecurrentKind::gru};

TEST_F(CudaRecurrent, OfEveryKind) {
  for (const RecurrentKind kind : kinds) expect({.kind = kind}, {DType::f32});
}

TEST_F(CudaRecurrent, DeepInBothDirectionsFromAnInitialState) {
  for (const RecurrentKind kind : kinds) {
    expect({.kind = kind, .layers = 2, .directions = 2, .initial = true}, {DType::f32});
  }
}

TEST_F(CudaRecurrent, WithoutBias) {
  for (const RecurrentKind kind : kinds) expect({.kind = kind, .bias = false}, {DType::f32});
}

TEST_F(CudaRecurrent, InSixteenBits) {
  for (const RecurrentKind kind : smooth_kinds) {
    expect({.kind = kind, .steps = 6}, {DType::bf16, DType::f16});
  }
}

TEST_F(CudaRecurrent, WithAProjection) {
  expect({.projection = 16, .layers = 2, .initial = true}, {DType::f32});
}

TEST_F(CudaRecurrent, WithDropoutBetweenLayers) {
  for (const RecurrentKind kind : kinds) {
    expect({.kind = kind, .layers = 3, .directions = 2, .dropout = 0.5}, {DType::f32});
  }
}

TEST_F(CudaRecurrent, OverSequencesOfTheirOwnLengths) {
  const std::vector<double> lengths = {17, 3, 9, 1, 17, 12, 5, 2};
  for (const RecurrentKind kind : kinds) {
    expect({.kind = kind, .layers = 2, .directions = 2, .initial = true, .lengths = lengths},
           {DType::f32});
  }
  expect({.layers = 2, .lengths = lengths, .dropout = 0.25}, {DType::f32});
}

TEST_F(CudaRecurrent, ByTheFastestAlgorithm) {
  CudaOptions options = exact_options();
  options.search_seconds = 60;
  set_cuda_options(gpu, options);
  for (const RecurrentKind kind : kinds) {
    expect({.kind = kind, .batch = 16, .hidden = 64, .layers = 2}, {DType::f32});
  }
  for (const RecurrentKind kind : smooth_kinds) {
    expect({.kind = kind, .batch = 16, .hidden = 64, .layers = 2}, {DType::bf16});
  }
  EXPECT_THAT(backend_of(gpu).export_plans(), ::testing::HasSubstr("\"recurrent\":{\""));
}

// Gradients are read from what the forward pass left, which must outlive the first walk.
TEST_F(CudaRecurrent, ARetainedGraphRunsAgain) {
  const Case s{.layers = 2};
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
  const Case s{.layers = 2};
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
