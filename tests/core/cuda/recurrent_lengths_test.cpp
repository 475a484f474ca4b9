// A captured step over sequences of their own lengths: replayed with lengths and inputs that the
// capture has not seen, NaN behind every end, it gives what the cells give on the reference.
#include "core/autograd.h"
#include "core/recurrent_cells.h"
#include "gpu.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <limits>

namespace whisker::test {
namespace {

struct Layers {
  RecurrentKind kind = RecurrentKind::lstm;
  int64_t layers = 1, directions = 1, projection = 0;
  bool bias = true, initial = true;
  double dropout = 0;
  DType dtype = DType::f32;
  int64_t steps = 9, features = 12, hidden = 20;

  static constexpr int64_t batch = 6;
  bool is_lstm() const { return kind == RecurrentKind::lstm; }
  int64_t gates() const { return is_lstm() ? 4 : kind == RecurrentKind::gru ? 3 : 1; }
  int64_t output() const { return projection > 0 ? projection : hidden; }
  int64_t cells() const { return layers * directions; }
  std::string name() const {
    return fmt::format("{} {} layers {} directions {} projection {} bias {} initial {} dropout {}",
                       name_of(kind), name_of(dtype), layers, directions, projection, bias, initial,
                       dropout);
  }
  std::vector<Shape> shapes() const {  // x, states, parameters
    std::vector<Shape> all = {{steps, batch, features}};
    if (initial) all.push_back({cells(), batch, output()});
    if (initial && is_lstm()) all.push_back({cells(), batch, hidden});
    for (int64_t cell = 0; cell < cells(); ++cell) {
      all.push_back({gates() * hidden, cell < directions ? features : directions * output()});
      all.push_back({gates() * hidden, output()});
      for (int i = 0; bias && i < 2; ++i) all.push_back({gates() * hidden});
      if (projection > 0) all.push_back({projection, hidden});
    }
    return all;
  }
  std::vector<Shape> result_shapes() const {
    std::vector<Shape> all = {{steps, batch, directions * output()}, {cells(), batch, output()}};
    if (is_lstm()) all.push_back({cells(), batch, hidden});
    return all;
  }
  /// Results, then the gradients of all leaves (in the order of shapes()) under `dresults`.
  std::vector<Tensor> step(const std::vector<Tensor>& leaves, const std::vector<Tensor>& dresults,
                           const Tensor& lengths, bool by_cells) const {
    RecurrentOptions options{.kind = kind,
                             .bidirectional = directions == 2,
                             .lengths = lengths,
                             .dropout = dropout,
                             .key = {.seed = 5, .stream = 6, .step = 7}};
    size_t next = 1;
    if (initial) options.initial.h = leaves[next++];
    if (initial && is_lstm()) options.initial.c = leaves[next++];
    std::vector<RecurrentParameters> parameters(static_cast<size_t>(cells()));
    for (RecurrentParameters& p : parameters) {
      p.w_ih = leaves[next++];
      p.w_hh = leaves[next++];
      if (bias) p.b_ih = leaves[next++];
      if (bias) p.b_hh = leaves[next++];
      if (projection > 0) p.w_hr = leaves[next++];
    }
    const RecurrentResult result = by_cells ? recurrent_by_cells(leaves[0], parameters, options)
                                            : recurrent(leaves[0], parameters, options);
    std::vector<Tensor> all = {result.y, result.last.h};
    if (is_lstm()) all.push_back(result.last.c);
    Tensor loss = sum(mul(all[0], dresults[0]));
    for (size_t i = 1; i < all.size(); ++i) loss = loss + sum(mul(all[i], dresults[i]));
    for (const Tensor& gradient : grad(loss, leaves)) all.push_back(gradient);
    return all;
  }
};

/// A round's numbers: what a captured step reads anew each time.
struct Round {
  std::vector<double> lengths;
  uint64_t seed;
};
const Round rounds[] = {{{9, 3, 0, 1, 9, 6}, 1}, {{1, 9, 5, 8, 0, 2}, 2}, {{9, 9, 9, 9, 9, 9}, 3}};

class Operands {
 public:
  Operands(const Layers& layers, Device device) : layers_(layers), device_(device) {
    const DType dtype = device == gpu ? layers.dtype : DType::f32;
    for (const Shape& shape : layers.shapes()) {
      leaves.push_back(zeros(shape, {.dtype = dtype, .device = device}));
      leaves.back().set_requires_grad();
    }
    for (const Shape& shape : layers.result_shapes()) {
      dresults.push_back(zeros(shape, {.dtype = dtype, .device = device}));
    }
    lengths = zeros({Layers::batch}, {.dtype = DType::i64, .device = device});
  }
  void load(const Round& round) {
    uint64_t stream = 0;
    const auto normal = [&](const Tensor& target, double scale) {
      const Tensor host =
          rand_normal(target.shape(), 0, scale, round.seed, ++stream, {.device = reference_device});
      // Rounded once, so that both devices see the same numbers.
      target.detach().copy_(host.to(layers_.dtype).to(target.dtype()).to(device_));
    };
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool parameter = leaves[i].rank() < 3;
      normal(leaves[i], parameter ? 0.6 / std::sqrt(static_cast<double>(layers_.hidden)) : 1);
    }
    for (const Tensor& tensor : dresults) normal(tensor, 1);
    std::vector<double> x = leaves[0].to_vector();
    const auto row = static_cast<size_t>(layers_.features);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t place = i / row, n = place % Layers::batch;
      if (static_cast<double>(place / Layers::batch) >= round.lengths[n]) {
        x[i] = std::numeric_limits<double>::quiet_NaN();
      }
    }
    const TensorOptions options{.dtype = leaves[0].dtype(), .device = device_};
    leaves[0].detach().copy_(from_vector(x, leaves[0].shape(), options));
    lengths.copy_(from_vector(round.lengths, lengths.shape(), lengths.options()));
  }
  std::vector<Tensor> step(bool by_cells) const {
    return layers_.step(leaves, dresults, lengths, by_cells);
  }
  std::vector<Tensor> leaves, dresults;
  Tensor lengths;

 private:
  const Layers& layers_;
  Device device_;
};

class CudaRecurrentLengths : public GpuTest {
 protected:
  static void expect_cells(const Layers& layers) {
    Operands reference(layers, reference_device), operands(layers, gpu);
    operands.load(rounds[0]);
    std::vector<Tensor> replayed;
    for (const Tensor& result : operands.step(false)) {
      replayed.push_back(zeros(result.shape(), result.options()));
    }
    const auto graph = backend_of(gpu).capture([&] {
      const std::vector<Tensor> got = operands.step(false);
      for (size_t i = 0; i < got.size(); ++i) replayed[i].copy_(got[i]);
    });
    for (const Round& round : rounds) {
      reference.load(round);
      operands.load(round);
      compare(layers, reference.step(true), operands.step(false), "eager", round);
      for (const Tensor& result : replayed) result.fill_(99);
      graph->replay();
      compare(layers, reference.step(true), replayed, "captured", round);
    }
  }

 private:
  static void compare(const Layers& layers, const std::vector<Tensor>& want,
                      const std::vector<Tensor>& got, const char* how, const Round& round) {
    ASSERT_EQ(got.size(), want.size());
    // Room for another library's sigmoid and tanh at every step.
    const double allowed =
        2e-5 + tolerance(layers.dtype, layers.steps * Layers::batch * layers.layers);
    const size_t results = layers.result_shapes().size();
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(close(got[i].to_vector(), want[i].to_vector(), allowed, 1e-6))
          << layers.name() << ", " << how << ", lengths " << round.lengths[0] << " ...: "
          << (i < results ? fmt::format("result {} (y, h, c)", i)
                          : fmt::format("gradient of leaf {} (x, h, c, parameters)", i - results));
    }
  }
};

constexpr RecurrentKind kinds[] = {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu,
                                   RecurrentKind::lstm, RecurrentKind::gru};

TEST_F(CudaRecurrentLengths, OfEveryKind) {
  for (const RecurrentKind kind : kinds) expect_cells({.kind = kind});
}

TEST_F(CudaRecurrentLengths, InBothDirections) {
  for (const RecurrentKind kind : kinds) expect_cells({.kind = kind, .directions = 2});
}

TEST_F(CudaRecurrentLengths, DeepInBothDirections) {
  for (const RecurrentKind kind : kinds) {
    expect_cells({.kind = kind, .layers = 2, .directions = 2});
  }
}

TEST_F(CudaRecurrentLengths, FromZeroStatesWithoutBias) {
  for (const RecurrentKind kind : kinds) {
    expect_cells({.kind = kind, .layers = 2, .bias = false, .initial = false});
  }
}

TEST_F(CudaRecurrentLengths, WithAProjection) {
  expect_cells({.layers = 2, .directions = 2, .projection = 8});
}

TEST_F(CudaRecurrentLengths, WithDropoutBetweenLayers) {
  for (const RecurrentKind kind : kinds) {
    expect_cells({.kind = kind, .layers = 3, .directions = 2, .dropout = 0.5});
  }
}

// Of rnn_relu the slope hangs on which side of zero a rounded sum falls.
TEST_F(CudaRecurrentLengths, InSixteenBits) {
  for (const RecurrentKind kind :
       {RecurrentKind::rnn_tanh, RecurrentKind::lstm, RecurrentKind::gru}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      expect_cells({.kind = kind, .layers = 2, .directions = 2, .dtype = dtype});
    }
  }
}

// Rows that fill no pack of 16 bytes.
TEST_F(CudaRecurrentLengths, OfOddExtents) {
  for (const RecurrentKind kind : kinds) {
    expect_cells({.kind = kind, .layers = 2, .directions = 2, .features = 7, .hidden = 13});
  }
}

// What our persistent kernels take.
TEST_F(CudaRecurrentLengths, ByPersistentKernels) {
  for (const RecurrentKind kind :
       {RecurrentKind::rnn_tanh, RecurrentKind::lstm, RecurrentKind::gru}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      expect_cells({.kind = kind, .layers = 2, .dtype = dtype, .hidden = 64});
      expect_cells({.kind = kind,
                    .layers = 2,
                    .initial = false,
                    .dropout = 0.5,
                    .dtype = dtype,
                    .hidden = 32});
    }
  }
}

// Capturing alone, as a step does after eager ones chose the algorithms by timing.
TEST_F(CudaRecurrentLengths, ByTheFastestAlgorithm) {
  CudaOptions options = exact_options();
  options.search_seconds = 60;
  set_cuda_options(gpu, options);
  for (const RecurrentKind kind : kinds) {
    expect_cells({.kind = kind, .layers = 2, .features = 64, .hidden = 64});
  }
}

}  // namespace
}  // namespace whisker::test
