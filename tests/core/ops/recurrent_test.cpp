// What the operator table cannot say of recurrent layers: padding may hold anything, threads change
// nothing, and nothing is kept when nothing is learned.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/ops/recurrent_cells.h"
#include "tests/support/devices.h"
#include "tests/support/error_of.h"
#include "tests/support/recording_backend.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr RecurrentKind kinds[] = {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu,
                                   RecurrentKind::lstm, RecurrentKind::gru};

struct Network {
  RecurrentGeometry g;
  std::vector<RecurrentParameters> parameters;
  std::vector<Tensor> leaves;

  Network(const RecurrentGeometry& geometry, TensorOptions options) : g(geometry) {
    uint64_t stream = 0;
    const auto leaf = [&](const Shape& shape) {
      const Tensor p = rand_uniform(shape, -0.4, 0.4, 3, stream++, options);
      leaves.push_back(p.set_requires_grad());
      return p;
    };
    for (int64_t cell = 0; cell < g.cells(); ++cell) {
      const int64_t rows = g.gates() * g.hidden;
      parameters.push_back({.w_ih = leaf({rows, g.inputs(cell / g.directions)}),
                            .w_hh = leaf({rows, g.output()}),
                            .b_ih = leaf({rows}),
                            .b_hh = leaf({rows})});
    }
  }

  RecurrentOptions options(const Tensor& lengths = {}) const {
    return {.kind = g.kind, .bidirectional = g.directions == 2, .lengths = lengths};
  }
};

/// y, last states, then the gradients of x and of every parameter.
std::vector<std::vector<double>> run(const Network& net, const Tensor& x, const Tensor& lengths,
                                     const Tensor& dy) {
  for (const Tensor& leaf : net.leaves) leaf.zero_grad();
  x.set_requires_grad();
  const RecurrentResult result = recurrent(x, net.parameters, net.options(lengths));
  backward(result.y, {.gradient = dy});
  std::vector<std::vector<double>> values = {result.y.to_vector(), result.last.h.to_vector()};
  if (result.last.c) values.push_back(result.last.c.to_vector());
  values.push_back(x.grad().to_vector());
  for (const Tensor& leaf : net.leaves) values.push_back(leaf.grad().to_vector());
  return values;
}

/// x (T,N,F) with `filling` after each sequence's end.
Tensor padded(const Tensor& x, const std::vector<int64_t>& lengths, double filling) {
  std::vector<double> values = x.to_vector();
  const auto batch = static_cast<size_t>(x.extent(1)), features = static_cast<size_t>(x.extent(2));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = i / features;
    if (static_cast<int64_t>(place / batch) >= lengths[place % batch]) values[i] = filling;
  }
  return from_vector(values, x.shape(), x.options());
}

TEST(Recurrent, PaddingIsNeverRead) {
  const std::vector<int64_t> lengths = {2, 5, 0, 3};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const RecurrentKind kind : kinds) {
        SCOPED_TRACE(fmt::format("{} {} {}", device, dtype, name_of(kind)));
        const TensorOptions options{.dtype = dtype, .device = device};
        const Network net({.kind = kind,
                           .steps = 5,
                           .batch = 4,
                           .features = 3,
                           .hidden = 6,
                           .layers = 2,
                           .directions = 2},
                          options);
        const Tensor valid = from_vector(std::vector<double>(lengths.begin(), lengths.end()), {4},
                                         {.dtype = DType::i64, .device = device});
        const Tensor x = rand_normal({5, 4, 3}, 0, 1, 1, 2, options);
        const Tensor dy = rand_normal({5, 4, 12}, 0, 1, 1, 3, options);
        const auto zeros_there = run(net, padded(x, lengths, 0), valid, padded(dy, lengths, 0));
        const auto nan_there = run(net, padded(x, lengths, nan), valid, padded(dy, lengths, nan));
        EXPECT_EQ(zeros_there, nan_there);
        const Tensor y = from_vector(nan_there[0], {5, 4, 12}, options);
        EXPECT_EQ(nan_there[0], padded(y, lengths, 0).to_vector()) << "y behind an end is not zero";
      }
    }
  }
}

TEST(Recurrent, ASequenceAloneIsTheSequenceInABatch) {
  for (const RecurrentKind kind : kinds) {
    const TensorOptions options{.dtype = DType::f64, .device = reference_device};
    const Network net({.kind = kind, .features = 2, .hidden = 3, .layers = 2, .directions = 2},
                      options);
    const Tensor x = rand_normal({4, 2, 2}, 0, 1, 1, 2, options);
    const Tensor lengths =
        from_vector({2, 4}, {2}, {.dtype = DType::i64, .device = reference_device});
    const auto together = recurrent(x, net.parameters, net.options(lengths));
    const Tensor first = slice(slice(x, 0, 0, 2), 1, 0, 1);
    const auto alone = recurrent(first, net.parameters, net.options());
    EXPECT_EQ(slice(slice(together.y, 0, 0, 2), 1, 0, 1).to_vector(), alone.y.to_vector());
    EXPECT_EQ(slice(together.last.h, 1, 0, 1).to_vector(), alone.last.h.to_vector());
  }
}

/// Sequences spread over threads, steps shared by threads, and one thread alone.
TEST(Recurrent, ThreadsComputeWhatTheReferenceDoes) {
  for (const int64_t batch : {2, 40}) {
    for (const RecurrentKind kind : kinds) {
      SCOPED_TRACE(fmt::format("{} batch {}", name_of(kind), batch));
      const RecurrentGeometry g{.kind = kind,
                                .steps = 7,
                                .batch = batch,
                                .features = 20,
                                .hidden = 48,
                                .layers = 2,
                                .directions = 2};
      const Network exact(g, {.device = reference_device});
      const Tensor x = rand_normal({7, batch, 20}, 0, 1, 1, 2, {.device = reference_device});
      const Tensor dy = rand_normal({7, batch, 96}, 0, 1, 1, 3, {.device = reference_device});
      const auto want = run(exact, x, {}, dy);
      for (const int threads : {1, 2, 3}) {
        set_cpu_options({.threads = threads});
        const Network net(g, {});
        const auto got = run(net, x.to(cpu_device), {}, dy.to(cpu_device));
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_TRUE(close(got[i], want[i], tolerance(DType::f32, 7 * batch * 48), 1))
              << "value " << i << ", " << threads << " threads";
        }
      }
      set_cpu_options({});
    }
  }
}

TEST(Recurrent, RefusesLengthsOutsideTheSteps) {
  const Network net({.kind = RecurrentKind::gru, .features = 2, .hidden = 3}, {});
  for (const double length : {-1.0, 6.0}) {
    const Tensor lengths = from_vector({3, length}, {2}, {.dtype = DType::i64});
    EXPECT_EQ(message_of(ErrorKind::usage,
                         [&] {
                           recurrent(zeros({5, 2, 2}), net.parameters, net.options(lengths));
                         }),
              fmt::format("recurrent: length {} is outside [0, 5]: x (5,2,2).", length));
  }
}

TEST(Recurrent, WithoutAGradientNothingIsKept) {
  const Network net({.kind = RecurrentKind::lstm, .features = 8, .hidden = 16, .layers = 3}, {});
  const Tensor x = rand_normal({50, 4, 8}, 0, 1, 1, 2);
  const auto y = recurrent(x, net.parameters, net.options()).y.to_vector();
  const NoGrad off_tape;
  const RecurrentResult result = recurrent(x, net.parameters, net.options());
  EXPECT_EQ(result.y.to_vector(), y);
  EXPECT_FALSE(result.y.requires_grad());
}

TEST(Recurrent, OnlyWhatIsWantedIsComputed) {
  for (const Device device : test_devices()) {
    const Network net({.kind = RecurrentKind::gru, .features = 2, .hidden = 3}, {.device = device});
    std::vector<RecurrentParameters> parameters = net.parameters;
    for (Tensor* p : {&parameters[0].w_ih, &parameters[0].b_ih, &parameters[0].b_hh}) {
      *p = p->detach();
    }
    const Tensor x = rand_normal({4, 2, 2}, 0, 1, 1, 2, {.device = device});
    const RecurrentResult result = recurrent(x, parameters, net.options());
    backward(sum(result.last.h));
    EXPECT_FALSE(net.leaves[0].grad().defined());
    ASSERT_TRUE(net.leaves[1].grad().defined());
    const auto only = net.leaves[1].grad().to_vector();
    net.leaves[1].zero_grad();
    backward(sum(recurrent(x, net.parameters, net.options()).last.h));
    EXPECT_EQ(only, net.leaves[1].grad().to_vector());
  }
}

/// A replay sees new inputs, lengths and masks in the memory of the capture.
TEST(Recurrent, ACapturedPassIsTheEagerOne) {
  RecordingBackend recorder(backend_of(reference_device));
  const ReferenceStandIn stand_in(recorder);
  const TensorOptions options{.device = reference_device};
  const TensorOptions integers{.dtype = DType::i64, .device = reference_device};
  const Network net({.kind = RecurrentKind::lstm, .features = 2, .hidden = 3, .layers = 2},
                    options);
  const Tensor x = rand_normal({4, 2, 2}, 0, 1, 1, 1, options);
  const Tensor lengths = from_vector({4, 4}, {2}, integers);
  const Tensor step = from_vector({0}, {1}, integers);
  const Tensor y = zeros({4, 2, 3}, options);
  const Tensor dw = zeros(net.leaves[0].shape(), options);
  const auto pass = [&] {
    RecurrentOptions settings = net.options(lengths);
    settings.dropout = 0.5;
    settings.key = {.seed = 1, .stream = 2, .offset = step.data<int64_t>().data()};
    const RecurrentResult result = recurrent(x, net.parameters, settings);
    const Tensor gradient = grad(sum(result.y), {{net.leaves[0]}})[0];
    y.copy_(result.y);
    dw.copy_(gradient);
  };
  const auto graph = recorder.capture(pass);
  x.copy_(rand_normal({4, 2, 2}, 0, 1, 1, 2, options));
  lengths.copy_(from_vector({1, 3}, {2}, integers));
  step.copy_(from_vector({7}, {1}, integers));
  graph->replay();
  const auto captured = std::pair(y.to_vector(), dw.to_vector());
  y.fill_(0);
  dw.fill_(0);
  pass();
  EXPECT_EQ(captured, std::pair(y.to_vector(), dw.to_vector()));
  EXPECT_NE(captured.first, std::vector<double>(24, 0.0));
}

TEST(Recurrent, AGraphCanBeWalkedTwice) {
  for (const Device device : test_devices()) {
    for (const RecurrentKind kind : kinds) {
      const TensorOptions options{.device = device};
      const Network net({.kind = kind, .features = 2, .hidden = 5, .layers = 2}, options);
      const Tensor x = rand_normal({3, 2, 2}, 0, 1, 1, 2, options);
      const Tensor loss = sum(recurrent(x, net.parameters, net.options()).y);
      const std::vector<Tensor> once = grad(loss, net.leaves, {.retain_graph = true});
      const std::vector<Tensor> again = grad(loss, net.leaves);
      for (size_t i = 0; i < once.size(); ++i) {
        EXPECT_EQ(once[i].to_vector(), again[i].to_vector()) << device.str() << " leaf " << i;
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
