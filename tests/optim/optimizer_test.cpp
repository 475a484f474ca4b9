// Every optimizer replays PyTorch's trace, in f64 on the reference and in f32 on the CPU.
#include "optim/optimizer.h"

#include "core/ops/ops.h"
#include "tests/optim/traces.h"
#include "tests/support/error_of.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace whisker {
namespace {

OptimizerKind kind_of(const std::string& torch_name) {
  if (torch_name == "SGD") return OptimizerKind::sgd;
  if (torch_name == "Adam") return OptimizerKind::adam;
  if (torch_name == "AdamW") return OptimizerKind::adamw;
  return OptimizerKind::rmsprop;
}

OptimizerOptions options_of(const JsonValue& entry) {
  const JsonValue& given = entry.at("options");
  const auto flag = [&](const char* key) { return given.find(key) && given.at(key).as_bool(); };
  OptimizerOptions options{
      .kind = kind_of(entry.at("kind").as_string()),
      .learning_rate = given.at("lr").as_double(),
      .momentum = traces::number_or(given, "momentum", 0),
      .nesterov = flag("nesterov"),
      .alpha = traces::number_or(given, "alpha", 0.99),
      .centered = flag("centered"),
      .epsilon = traces::number_or(given, "eps", 1e-8),
      .weight_decay = traces::number_or(given, "weight_decay", 0),
  };
  if (const JsonValue* betas = given.find("betas")) {
    options.beta1 = betas->items()[0].as_double();
    options.beta2 = betas->items()[1].as_double();
  }
  return options;
}

void replay(Device device, DType dtype, double tolerance) {
  for (const auto& [name, entry] : traces::file().at("optimizers").members()) {
    SCOPED_TRACE(name);
    traces::Model model(device, dtype);
    const OptimizerOptions options = options_of(entry);
    Optimizer optimizer(model.arena, options);
    const JsonValue* rates = entry.at("options").find("rates");
    for (int t = 1; t <= traces::step_count; ++t) {
      model.set_gradient(t);
      const auto index = static_cast<size_t>(t - 1);
      const double rate = rates ? rates->items()[index].as_double() : options.learning_rate;
      ASSERT_TRUE(optimizer.step(rate).finite);
      const std::vector<double> expected = traces::numbers_of(entry.at("trace").items()[index]);
      const std::vector<double> got = model.values();
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i])))
            << "step " << t << ", element " << i;
      }
    }
  }
}

TEST(Optimizer, FollowsPyTorchInF64OnTheReference) {
  replay(reference_device, DType::f64, 2e-9);  // the traces hold nine digits
}

// f32: ten steps of at most a few roundings each, relative to values below 5.
TEST(Optimizer, FollowsPyTorchInF32OnTheReference) {
  replay(reference_device, DType::f32, 5e-6);
}
TEST(Optimizer, FollowsPyTorchInF32OnTheCpu) {
  replay(cpu_device, DType::f32, 5e-6);
}

struct TwoParameters {
  std::shared_ptr<Parameter> a, b;
  ParameterArena arena;
  static std::shared_ptr<Parameter> make(const char* name, ParameterRole role, int64_t size) {
    auto parameter = std::make_shared<Parameter>(Shape{size}, role, nullptr);
    parameter->set_name(name);
    return parameter;
  }
  static ParameterList list(const std::shared_ptr<Parameter>& a,
                            const std::shared_ptr<Parameter>& b, const OptimizerOptions& options) {
    Optimizer::assign_groups({a, b}, options);
    return {a, b};
  }
  explicit TwoParameters(const OptimizerOptions& options, int64_t size_a = 3, int64_t size_b = 4)
      : a(make("a.weight", ParameterRole::weight, size_a)),
        b(make("b.bias", ParameterRole::bias, size_b)),
        arena(list(a, b, options), cpu_device, 0) {}
  void set_gradients(const std::vector<double>& ga, const std::vector<double>& gb) {
    arena.zero_grad();
    backward(add(sum(a->value() * from_vector(ga, a->shape())),
                 sum(b->value() * from_vector(gb, b->shape()))));
  }
};

TEST(Optimizer, ClipsByNormAndValueAsPyTorch) {
  const JsonValue& clipping = traces::file().at("clipping");
  const auto first = traces::numbers_of(clipping.at("gradients").items()[0]);
  const auto second = traces::numbers_of(clipping.at("gradients").items()[1]);
  const auto check = [&](const OptimizerOptions& options, const JsonValue& expected, double* norm) {
    TwoParameters model(options);
    Optimizer optimizer(model.arena, options);
    model.set_gradients(first, second);
    const StepReport report = optimizer.step(1);  // plain SGD at rate 1: value = -gradient
    if (norm) {
      EXPECT_NEAR(report.gradient_norm, *norm, 1e-5 * *norm);
    }
    const auto a = model.a->value().to_vector(), b = model.b->value().to_vector();
    const auto ea = traces::numbers_of(expected.at("clipped").items()[0]);
    const auto eb = traces::numbers_of(expected.at("clipped").items()[1]);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(-a[i], ea[i], 1e-5 * (1 + std::abs(ea[i])));
    for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(-b[i], eb[i], 1e-5 * (1 + std::abs(eb[i])));
  };
  for (const JsonValue& entry : clipping.at("by_norm").items()) {
    double norm = entry.at("norm").as_double();
    check({.kind = OptimizerKind::sgd, .clip_norm = entry.at("max_norm").as_double()}, entry,
          &norm);
  }
  for (const JsonValue& entry : clipping.at("by_value").items()) {
    check({.kind = OptimizerKind::sgd, .clip_value = entry.at("limit").as_double()}, entry,
          nullptr);
  }
}

TEST(Optimizer, GroupsHaveTheirOwnRateAndDecay) {
  const OptimizerOptions options{.kind = OptimizerKind::sgd,
                                 .weight_decay = 0.5,
                                 .decay_all = false,
                                 .groups = {{.pattern = "a.*", .learning_rate_factor = 10}}};
  TwoParameters model(options, 70, 5);  // 70 floats: more than one 256-byte block
  model.a->value().fill_(1);
  model.b->value().fill_(1);
  Optimizer optimizer(model.arena, options);
  model.set_gradients(std::vector<double>(70, 1.0), std::vector<double>(5, 1.0));
  optimizer.step(0.01);
  // a: 1 - 0.1 (1 + 0.5); b, a bias: 1 - 0.01.
  for (const double v : model.a->value().to_vector()) EXPECT_NEAR(v, 0.85, 1e-6);
  for (const double v : model.b->value().to_vector()) EXPECT_NEAR(v, 0.99, 1e-6);
}

// Without a gradient only decay moves a value.
TEST(Optimizer, DecayAllFalseSparesBiasesAndNormalisation) {
  for (const bool decay_all : {true, false}) {
    const OptimizerOptions options{
        .kind = OptimizerKind::sgd, .weight_decay = 0.5, .decay_all = decay_all};
    ParameterList parameters;
    for (const auto& [name, role] :
         {std::pair{"weight", ParameterRole::weight}, std::pair{"bias", ParameterRole::bias},
          std::pair{"norm", ParameterRole::norm}}) {
      parameters.push_back(std::make_shared<Parameter>(
          Shape{3}, role,
          [](uint64_t, uint64_t, std::span<float> out) { std::ranges::fill(out, 1.0f); }));
      parameters.back()->set_name(name);
    }
    Optimizer::assign_groups(parameters, options);
    ParameterArena arena(parameters, cpu_device, 0);
    Optimizer optimizer(arena, options);
    arena.zero_grad();
    optimizer.step(0.1);
    for (const auto& parameter : parameters) {
      const bool decays = decay_all || parameter->role() == ParameterRole::weight;
      for (const double v : parameter->value().to_vector()) {
        EXPECT_NEAR(v, decays ? 0.95 : 1, 1e-6) << parameter->name() << decay_all;
      }
    }
  }
}

// The caller is told, and the next update is done again.
TEST(Optimizer, GoesOnAfterANonFiniteGradient) {
  const OptimizerOptions options{.kind = OptimizerKind::sgd};
  TwoParameters model(options);
  Optimizer optimizer(model.arena, options);
  model.set_gradients({1, std::nan(""), 1}, {1, 1, 1, 1});
  EXPECT_FALSE(optimizer.step(0.5).finite);
  model.set_gradients({1, 1, 1}, {1, 1, 1, 1});
  const StepReport report = optimizer.step(0.5);
  EXPECT_TRUE(report.finite);
  EXPECT_NEAR(report.gradient_norm, std::sqrt(7.0), 1e-6);
  EXPECT_EQ(optimizer.steps(), 1);
  for (const double v : model.a->value().to_vector()) EXPECT_EQ(v, -0.5);
}

// Two runs: bf16 copies of the weights with bf16 gradients, and f32 normalisation parameters.
TEST(Optimizer, StepsMastersAndComputeViews) {
  auto weight = std::make_shared<Parameter>(Shape{100}, ParameterRole::weight, nullptr);
  auto gamma = std::make_shared<Parameter>(Shape{5}, ParameterRole::norm, nullptr);
  weight->set_name("weight");
  gamma->set_name("gamma");
  const OptimizerOptions options{.kind = OptimizerKind::sgd, .clip_norm = 1};
  Optimizer::assign_groups({gamma, weight}, options);
  ParameterArena arena({gamma, weight}, cpu_device, 1, {.compute = DType::bf16});
  Optimizer optimizer(arena, options);
  for (int step = 0; step < 2; ++step) {
    arena.zero_grad();
    backward(add(sum(weight->value()).to(DType::f32), sum(gamma->value())));
    EXPECT_NEAR(optimizer.step(0.1).gradient_norm, std::sqrt(105.0), 1e-6);
  }
  // Clipped to norm 1 over both runs: each element moved by 0.1 / sqrt(105) twice.
  const double want = -0.2 / std::sqrt(105.0);
  for (const double v : weight->master().to_vector()) EXPECT_NEAR(v, want, 1e-7);
  for (const double v : gamma->value().to_vector()) EXPECT_NEAR(v, want, 1e-7);
  EXPECT_EQ(weight->value().to_vector(), weight->master().to(DType::bf16).to_vector());
}

TEST(Optimizer, ParametersWithoutGradientDoNotMove) {
  const OptimizerOptions options{.kind = OptimizerKind::sgd};
  TwoParameters model(options);
  Optimizer optimizer(model.arena, options);
  model.set_gradients({1, 1, 1}, {1, 1, 1, 1});
  optimizer.step(0.5);
  model.arena.zero_grad();
  backward(sum(model.a->value()));  // b takes no part: its old gradient must not be used again
  optimizer.step(0.5);
  for (const double v : model.a->value().to_vector()) EXPECT_NEAR(v, -1, 1e-6);
  for (const double v : model.b->value().to_vector()) EXPECT_NEAR(v, -0.5, 1e-6);
}

TEST(Optimizer, BlocksEndAtTheFirstNumber) {
  EXPECT_EQ(block_of("features.3.squeeze.weight"), "features.3");
  EXPECT_EQ(block_of("layer1.0.downsample.1.bias"), "layer1.0");
  EXPECT_EQ(block_of("features.1.0.block.0.weight"), "features.1.0");
  EXPECT_EQ(block_of("encoder.layers.encoder_layer_7.ln_1.weight"),
            "encoder.layers.encoder_layer_7");
  EXPECT_EQ(block_of("conv1.weight"), "conv1");
  EXPECT_EQ(block_of("head.fc.weight"), "head.fc");
  EXPECT_EQ(block_of("cls_token"), "cls_token");
}

// Two convolutions and a head: the rate halves per block, and a norm's is its convolution's.
TEST(Optimizer, LayerDecayLowersTheRateTowardsTheInput) {
  const OptimizerOptions options{.kind = OptimizerKind::sgd, .layer_decay = 0.5};
  ParameterList parameters;
  for (const auto& [name, role] : {std::pair{"conv1.weight", ParameterRole::conv_weight},
                                   std::pair{"bn1.weight", ParameterRole::norm},
                                   std::pair{"layer1.0.conv.weight", ParameterRole::conv_weight},
                                   std::pair{"fc.weight", ParameterRole::weight}}) {
    parameters.push_back(std::make_shared<Parameter>(Shape{1, 1, 1, 3}, role, nullptr));
    parameters.back()->set_name(name);
  }
  Optimizer::assign_groups(parameters, options);
  ParameterArena arena(parameters, cpu_device, 0);
  Optimizer optimizer(arena, options);
  arena.zero_grad();
  Tensor all = sum(parameters[0]->value());
  for (size_t i = 1; i < 4; ++i) all = add(all, sum(parameters[i]->value()));
  backward(all);
  optimizer.step(0.1);
  const double want[] = {-0.025, -0.025, -0.05, -0.1};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(parameters[i]->value().to_vector()[0], want[i], 1e-7) << parameters[i]->name();
  }
}

// Frozen at first: neither gradient nor decay moves it; then it is updated as a new optimizer
// would.
TEST(Optimizer, UpdatesWhatIsUnfrozen) {
  const OptimizerOptions options{.kind = OptimizerKind::adamw, .weight_decay = 0.5};
  const auto make = [](const char* name) {
    auto parameter = std::make_shared<Parameter>(
        Shape{3}, ParameterRole::weight,
        [](uint64_t, uint64_t, std::span<float> out) { std::ranges::fill(out, 1.0f); });
    parameter->set_name(name);
    return parameter;
  };
  const auto first = make("first.weight"), last = make("last.weight");
  first->set_frozen_at_first();
  Optimizer::assign_groups({first, last}, options);
  ParameterArena arena({first, last}, cpu_device, 0);
  Optimizer optimizer(arena, options);
  const auto update = [&] {
    arena.zero_grad();
    backward(add(sum(first->value() * last->value()), sum(last->value())));
    optimizer.step(0.1);
  };
  EXPECT_FALSE(first->value().requires_grad());
  for (int i = 0; i < 5; ++i) update();
  EXPECT_EQ(first->value().to_vector(), std::vector<double>(3, 1.0));
  EXPECT_LT(last->value().to_vector()[0], 0.6);
  arena.unfreeze();
  optimizer.unfreeze();
  optimizer.restart();
  EXPECT_TRUE(first->value().requires_grad());
  update();
  // The first update of AdamW: the rate times the gradient's sign, and the decay.
  EXPECT_NEAR(first->value().to_vector()[0], 1 - 0.1 * 0.5 - 0.1, 1e-5);
}

TEST(Optimizer, PatternThatMatchesNothingIsNamed) {
  const OptimizerOptions options{.groups = {{.pattern = "head.*"}}};
  EXPECT_EQ(test::message_of(ErrorKind::usage, [&] { TwoParameters model(options); }),
            "optimizer.groups: pattern 'head.*' matches no parameter name");
  const OptimizerOptions shadowed{.groups = {{.pattern = "*"}, {.pattern = "*"}}};
  EXPECT_EQ(test::message_of(ErrorKind::usage, [&] { TwoParameters model(shadowed); }),
            "optimizer.groups: no parameter is left for pattern '*': groups before it have all 2 "
            "that it matches, and the first matching one counts. Put it before them.");
}

}  // namespace
}  // namespace whisker
