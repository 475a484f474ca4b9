// A captured step over sequences of their own lengths: replayed with lengths and inputs that the
// capture has not seen, NaN behind every end, it gives what the cells give on the reference.
#include "core/autograd/autograd.h"
#include "recurrent_case.h"

#include <limits>

namespace whisker::test {
namespace {

/// What a test computes, small, of as many sequences and steps as the rounds have.
RecurrentCase layers_of(RecurrentKind kind, int64_t layers = 1, int64_t directions = 1) {
  return {.kind = kind,
          .steps = 9,
          .batch = 6,
          .features = 12,
          .hidden = 20,
          .layers = layers,
          .directions = directions,
          .initial = true};
}

std::vector<Shape> result_shapes(const RecurrentCase& s) {
  std::vector<Shape> all = {{s.steps, s.batch, s.directions * s.output()},
                            {s.cells(), s.batch, s.output()}};
  if (s.is_lstm()) all.push_back({s.cells(), s.batch, s.hidden});
  return all;
}

/// A round's numbers: what a captured step reads anew each time.
struct Round {
  std::vector<double> lengths;
  uint64_t seed;
};
const Round rounds[] = {{{9, 3, 0, 1, 9, 6}, 1}, {{1, 9, 5, 8, 0, 2}, 2}, {{9, 9, 9, 9, 9, 9}, 3}};

class Operands {
 public:
  /// Numbers of `dtype`, on the reference in f32.
  Operands(const RecurrentCase& s, DType dtype, Device device)
      : case_(s), rounded_(dtype), device_(device) {
    if (device != gpu) dtype = DType::f32;
    for (const Shape& shape : s.shapes()) {
      leaves.push_back(zeros(shape, {.dtype = dtype, .device = device}));
      leaves.back().set_requires_grad();
    }
    for (const Shape& shape : result_shapes(s)) {
      dresults.push_back(zeros(shape, {.dtype = dtype, .device = device}));
    }
    lengths = zeros({s.batch}, {.dtype = DType::i64, .device = device});
  }
  void load(const Round& round) {
    uint64_t stream = 0;
    const auto normal = [&](const Tensor& target, double scale) {
      const Tensor host =
          rand_normal(target.shape(), 0, scale, round.seed, ++stream, {.device = reference_device});
      // Rounded once, so that both devices see the same numbers.
      target.detach().copy_(host.to(rounded_).to(target.dtype()).to(device_));
    };
    for (const bool parameters : {false, true}) {
      for (const Tensor& leaf : leaves) {
        if (RecurrentCase::is_parameter(leaf.shape()) != parameters) continue;
        normal(leaf, parameters ? case_.weight_scale() : 1);
      }
    }
    for (const Tensor& tensor : dresults) normal(tensor, 1);
    std::vector<double> x = leaves[0].to_vector();
    const auto row = static_cast<size_t>(case_.features);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t index = i / row, n = index % round.lengths.size();
      if (static_cast<double>(index / round.lengths.size()) >= round.lengths[n]) {
        x[i] = std::numeric_limits<double>::quiet_NaN();
      }
    }
    const TensorOptions options{.dtype = leaves[0].dtype(), .device = device_};
    leaves[0].detach().copy_(from_vector(x, leaves[0].shape(), options));
    lengths.copy_(from_vector(round.lengths, lengths.shape(), lengths.options()));
  }
  /// Results, then the gradients of all leaves (in the order of shapes()) under dresults.
  std::vector<Tensor> step(bool by_cells) const {
    const RecurrentResult result =
        case_.compute(by_cells ? recurrent_by_cells : recurrent, leaves, lengths);
    std::vector<Tensor> all = {result.y, result.last.h};
    if (case_.is_lstm()) all.push_back(result.last.c);
    Tensor loss = sum(mul(all[0], dresults[0]));
    for (size_t i = 1; i < all.size(); ++i) loss = loss + sum(mul(all[i], dresults[i]));
    for (const Tensor& gradient : grad(loss, leaves)) all.push_back(gradient);
    return all;
  }
  std::vector<Tensor> leaves, dresults;
  Tensor lengths;

 private:
  const RecurrentCase& case_;
  DType rounded_;
  Device device_;
};

class CudaRecurrentLengths : public GpuTest {
 protected:
  static void expect_cells(const RecurrentCase& s, DType dtype = DType::f32) {
    Operands reference(s, dtype, reference_device), operands(s, dtype, gpu);
    operands.load(rounds[0]);
    const auto step = [&] { return operands.step(false); };
    const CapturedResults replayed(step(), step);
    for (const Round& round : rounds) {
      reference.load(round);
      operands.load(round);
      compare(s, dtype, reference.step(true), step(), "eager", round);
      for (const Tensor& result : replayed.results) result.fill_(99);
      replayed.graph->replay();
      compare(s, dtype, reference.step(true), replayed.results, "captured", round);
    }
  }

 private:
  static void compare(const RecurrentCase& s, DType dtype, const std::vector<Tensor>& want,
                      const std::vector<Tensor>& got, const char* how, const Round& round) {
    ASSERT_EQ(got.size(), want.size());
    // Tolerance for another library's sigmoid and tanh at every step.
    const double allowed = 2e-5 + tolerance(dtype, s.steps * s.batch * s.layers);
    const size_t results = result_shapes(s).size();
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(close(got[i].to_vector(), want[i].to_vector(), allowed, 1e-6))
          << s.name(dtype) << ", " << how << ", lengths " << round.lengths[0] << " ...: "
          << (i < results ? fmt::format("result {} (y, h, c)", i)
                          : fmt::format("gradient of leaf {} (x, parameters, h, c)", i - results));
    }
  }
};

TEST_F(CudaRecurrentLengths, OfEveryKind) {
  for (const RecurrentKind kind : recurrent_kinds) {
    expect_cells(layers_of(kind));
    expect_cells(layers_of(kind, 1, 2));
    expect_cells(layers_of(kind, 2, 2));
    RecurrentCase plain = layers_of(kind, 2);
    plain.bias = plain.initial = false;
    expect_cells(plain);
    RecurrentCase dropping = layers_of(kind, 3, 2);
    dropping.dropout = 0.5;
    expect_cells(dropping);
    RecurrentCase odd = layers_of(kind, 2, 2);  // rows that fill no pack of 16 bytes
    odd.features = 7;
    odd.hidden = 13;
    expect_cells(odd);
  }
}

TEST_F(CudaRecurrentLengths, WithAProjection) {
  RecurrentCase s = layers_of(RecurrentKind::lstm, 2, 2);
  s.projection = 8;
  expect_cells(s);
}

TEST_F(CudaRecurrentLengths, InSixteenBits) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    for (const DType dtype : {DType::bf16, DType::f16}) expect_cells(layers_of(kind, 2, 2), dtype);
  }
}

// Layers that the persistent kernels support.
TEST_F(CudaRecurrentLengths, ByPersistentKernels) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      RecurrentCase s = layers_of(kind, 2);
      s.hidden = 64;
      expect_cells(s, dtype);
      s.hidden = 32;
      s.initial = false;
      s.dropout = 0.5;
      expect_cells(s, dtype);
    }
  }
}

}  // namespace
}  // namespace whisker::test
