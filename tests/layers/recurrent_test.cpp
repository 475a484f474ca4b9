// Recurrent layers against PyTorch's traces (scripts/make_recurrent_traces.py), and what surrounds
// the operator: names, the last step, carried states, initial values.
#include "layers/recurrent.h"

#include "core/ops/recurrent_cells.h"
#include "layers/layers.h"
#include "tests/support/devices.h"
#include "tests/support/json_fixture.h"
#include "tests/support/tolerance.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::close;
using test::numbers_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

const JsonValue& traces() {
  static const JsonValue parsed =
      test::json_fixture(WHISKER_SOURCE_DIR "/tests/layers/recurrent_traces.json");
  return parsed;
}

RecurrentKind kind_of(const std::string& name) {
  for (const RecurrentKind kind : {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu,
                                   RecurrentKind::lstm, RecurrentKind::gru}) {
    if (name == name_of(kind)) return kind;
  }
  ADD_FAILURE() << "a trace of unknown kind " << name;
  return RecurrentKind::lstm;
}

Recurrent::Options layer_of(const JsonValue& trace) {
  return {.kind = kind_of(trace.at("kind").as_string()),
          .features = traces().at("features").as_int(),
          .units = traces().at("hidden").as_int(),
          .layers = trace.at("layers").as_int(),
          .bidirectional = trace.at("bidirectional").as_bool(),
          .return_sequences = true,
          .projection = trace.at("projection").as_int(),
          .bias = trace.at("bias").as_bool()};
}

/// Tensors by the names of the parameters of a layer.
class Named {
 public:
  Named(const Recurrent& layer, const JsonValue& values, TensorOptions options) {
    const ParameterList parameters = layer.parameters();
    EXPECT_EQ(parameters.size(), values.members().size());
    for (const auto& parameter : parameters) {
      names_.push_back(parameter->name());
      tensors_.push_back(
          from_vector(numbers_of(values.at(parameter->name())), parameter->shape(), options)
              .set_requires_grad());
    }
  }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  Tensor find(const std::string& name) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return tensors_[i];
    }
    return {};
  }
  RecurrentParameters cell(const std::string& suffix) const {
    return {find("weight_ih" + suffix), find("weight_hh" + suffix), find("bias_ih" + suffix),
            find("bias_hh" + suffix), find("weight_hr" + suffix)};
  }

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

using Operator = RecurrentResult (*)(const Tensor&, std::span<const RecurrentParameters>,
                                     const RecurrentOptions&);

void check_trace(const JsonValue& trace, Operator op, TensorOptions options) {
  const Recurrent::Options o = layer_of(trace);
  const Named named(Recurrent(o), trace.at("parameters"), options);
  std::vector<RecurrentParameters> cells;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    cells.push_back(named.cell(fmt::format("_l{}", layer)));
    if (o.bidirectional) cells.push_back(named.cell(fmt::format("_l{}_reverse", layer)));
  }
  const int64_t batch = traces().at("batch").as_int();
  const auto leaf = [&](const JsonValue& values, const Shape& shape) {
    return from_vector(numbers_of(values), shape, options).set_requires_grad();
  };
  const Tensor x = leaf(trace.at("x"), {traces().at("steps").as_int(), batch, o.features});
  std::vector<Tensor> states;
  for (const JsonValue& state : trace.at("states").items()) {
    const int64_t extent = states.empty() && o.projection > 0 ? o.projection : o.units;
    states.push_back(leaf(state, {static_cast<int64_t>(cells.size()), batch, extent}));
  }
  RecurrentOptions settings{.kind = o.kind, .bidirectional = o.bidirectional};
  settings.initial = {.h = states[0], .c = states.size() > 1 ? states[1] : Tensor()};
  if (const auto lengths = numbers_of(trace.at("lengths")); !lengths.empty()) {
    settings.lengths =
        from_vector(lengths, {batch}, {.dtype = DType::i64, .device = options.device});
  }
  const RecurrentResult result = op(x, cells, settings);

  constexpr double tolerance = 2e-6;  // the file has 7 decimals
  std::vector<Tensor> results = {result.y, result.last.h};
  if (result.last.c) results.push_back(result.last.c);
  Tensor loss = zeros({}, options);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(
        close(results[i].to_vector(), numbers_of(trace.at("results").items()[i]), tolerance, 1))
        << "result " << i;
    const Tensor w =
        from_vector(numbers_of(trace.at("weights").items()[i]), results[i].shape(), options);
    loss = loss + sum(w * results[i]);
  }
  backward(loss);
  EXPECT_TRUE(close(x.grad().to_vector(), numbers_of(trace.at("dx")), tolerance, 1)) << "dx";
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_TRUE(close(states[i].grad().to_vector(), numbers_of(trace.at("dstates").items()[i]),
                      tolerance, 1))
        << "gradient of state " << i;
  }
  for (size_t i = 0; i < named.names().size(); ++i) {
    EXPECT_TRUE(close(named.tensors()[i].grad().to_vector(),
                      numbers_of(trace.at("gradients").at(named.names()[i])), tolerance, 1))
        << "gradient of " << named.names()[i];
  }
}

TEST(RecurrentTraces, AreWhatEveryDeviceComputes) {
  ASSERT_EQ(traces().at("cases").items().size(), 13u);
  for (const JsonValue& trace : traces().at("cases").items()) {
    for (const Device device : test::test_devices()) {
      SCOPED_TRACE(fmt::format("{} x {} on {}", trace.at("kind").as_string(),
                               trace.at("layers").as_int(), device));
      const DType dtype = device.kind == DeviceKind::reference ? DType::f64 : DType::f32;
      check_trace(trace, recurrent, {.dtype = dtype, .device = device});
      check_trace(trace, recurrent_by_cells, {.dtype = dtype, .device = device});
    }
  }
}

TEST(RecurrentTraces, HaveTheLayersNamesInItsOrder) {
  for (const JsonValue& trace : traces().at("cases").items()) {
    const Recurrent layer(layer_of(trace));
    std::vector<std::string> ours, torchs;
    for (const auto& parameter : layer.parameters()) ours.push_back(parameter->name());
    for (const auto& [name, values] : trace.at("parameters").members()) torchs.push_back(name);
    EXPECT_EQ(ours, torchs);
  }
}

TEST(Recurrent, TheLastStepIsThatOfEachDirection) {
  Recurrent::Options options{
      .kind = RecurrentKind::gru, .features = 2, .units = 3, .bidirectional = true};
  Recurrent last(options);
  options.return_sequences = true;
  Recurrent every(options);
  ParameterArena a(last.parameters(), reference_device, 1, {.master = DType::f64});
  ParameterArena b(every.parameters(), reference_device, 1, {.master = DType::f64});
  const Tensor x = rand_normal({4, 2, 2}, 0, 1, 1, 1, exact);
  const Pass pass{.lengths =
                      from_vector({2, 4}, {2}, {.dtype = DType::i64, .device = reference_device})};
  const auto y = every(x, pass).to_vector();  // (4, 2, 6)
  const auto at = [&](int64_t t, int64_t n, int64_t j) {
    return y[static_cast<size_t>((t * 2 + n) * 6 + j)];
  };
  EXPECT_THAT(
      last(x, pass).to_vector(),
      ElementsAre(at(1, 0, 0), at(1, 0, 1), at(1, 0, 2), at(0, 0, 3), at(0, 0, 4), at(0, 0, 5),
                  at(3, 1, 0), at(3, 1, 1), at(3, 1, 2), at(0, 1, 3), at(0, 1, 4), at(0, 1, 5)));
  EXPECT_EQ(last.output_shape(x.shape()), (Shape{2, 6}));
  EXPECT_EQ(every.output_shape(x.shape()), (Shape{4, 2, 6}));
}

TEST(Recurrent, BatchFirstExchangesTheAxesOnly) {
  for (const bool return_sequences : {false, true}) {
    Recurrent::Options options{.features = 2, .units = 3, .return_sequences = return_sequences};
    Recurrent steps_first(options);
    options.batch_first = true;
    Recurrent batch_first(options);
    ParameterArena a(steps_first.parameters(), reference_device, 1);
    ParameterArena b(batch_first.parameters(), reference_device, 1);
    const Tensor x = rand_normal({4, 5, 2}, 0, 1, 1, 1, {.device = reference_device});
    const Tensor turned = transpose(x, {1, 0, 2});
    const Tensor y = steps_first(x);
    const Tensor z = batch_first(turned);
    EXPECT_EQ(z.shape(), batch_first.output_shape(turned.shape()));
    EXPECT_EQ((return_sequences ? transpose(z, {1, 0, 2}) : z).to_vector(), y.to_vector());
  }
}

TEST(Recurrent, CarriedStatesJoinTheStretchesOfASequence) {
  for (const RecurrentKind kind : {RecurrentKind::rnn_tanh, RecurrentKind::lstm}) {
    Sequential net;
    net.add<Recurrent>(
        {.kind = kind, .features = 2, .units = 3, .layers = 2, .return_sequences = true}, "a");
    net.add<Recurrent>({.kind = kind, .features = 3, .units = 2, .return_sequences = true}, "b");
    ParameterArena arena(net.parameters(), reference_device, 1, {.master = DType::f64});
    const Tensor x = rand_normal({6, 2, 2}, 0, 1, 1, 1, exact);
    const auto whole = net(x).to_vector();
    CarriedStates states;
    auto stretches = net(slice(x, 0, 0, 2), {.states = &states}).to_vector();
    EXPECT_EQ(states.size(), 2u);
    EXPECT_EQ(states.at("a").h.shape(), (Shape{2, 2, 3}));
    EXPECT_EQ(states.at("b").c.defined(), kind == RecurrentKind::lstm);
    EXPECT_FALSE(states.at("a").h.requires_grad());
    const auto rest = net(slice(x, 0, 2, 6), {.states = &states}).to_vector();
    stretches.insert(stretches.end(), rest.begin(), rest.end());
    EXPECT_EQ(stretches, whole);
    EXPECT_THAT(
        [&] {
          net(zeros({1, 5, 2}, exact), {.states = &states});
        },
        ThrowsMessage<Error>(HasSubstr("the carried state of 'a' is that of 2 sequences, x "
                                       "has 5. Clear the states")));
  }
}

TEST(Recurrent, DropsBetweenLayersInTrainingOnly) {
  Recurrent layer({.features = 2, .units = 8, .layers = 2, .dropout = 0.5});
  ParameterArena arena(layer.parameters(), reference_device, 1);
  const Tensor x = rand_normal({3, 2, 2}, 0, 1, 1, 1, {.device = reference_device});
  const auto run = [&](const Pass& pass) { return layer(x, pass).to_vector(); };
  EXPECT_EQ(run({}), run({.seed = 5}));
  EXPECT_NE(run({}), run({.training = true}));
  EXPECT_EQ(run({.training = true, .step = 2}), run({.training = true, .step = 2}));
  EXPECT_NE(run({.training = true, .step = 2}), run({.training = true, .step = 3}));
}

TEST(Recurrent, CanStartAsKerasDoes) {
  Recurrent layer({.features = 5, .units = 4, .keras_start = true});
  ParameterArena arena(layer.parameters(), reference_device, 1, {.master = DType::f64});
  const ParameterList parameters = layer.parameters();
  const Tensor w = parameters[1]->value().detach();  // (16, 4): orthonormal columns
  const auto gram = matmul(transpose(w, {1, 0}), w).to_vector();
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(gram[i], i % 5 == 0 ? 1 : 0, 1e-6);
  const auto bias = parameters[2]->value().to_vector();
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(bias[i], i / 4 == 1 ? 1 : 0) << "the forget gate's is 1";
  for (const double v : parameters[3]->value().to_vector()) EXPECT_EQ(v, 0);
  const double bound = std::sqrt(6.0 / (5 + 16));
  for (const double v : parameters[0]->value().to_vector()) EXPECT_LE(std::fabs(v), bound);
}

}  // namespace
}  // namespace whisker
