// Recomputed blocks train bit for bit as others do, in less memory.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/ops/ops.h"
#include "core/ops/recurrent.h"
#include "layers/analysis/summary.h"
#include "layers/builder/model_builder.h"
#include "layers/memory_plan.h"
#include "layers/recomputed_blocks.h"
#include "tests/support/error_of.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Batch norms, dropout, stochastic depth, branches; residuals within a sequential within another.
const std::string network = R"(
  - conv2d: {name: stem, filters: 8, kernel: 3, padding: same}
  - sequential:
      name: stage
      layers:
        - repeat:
            n: 2
            layers:
              - residual:
                  name: block{i}
                  drop_path: 0.3
                  body:
                    - conv2d: {name: conv, filters: 8, kernel: 3, padding: same}
                    - batch_norm: {name: norm, activation: relu}
                    - dropout: 0.3
                    - conv2d: {name: conv2, filters: 8, kernel: 1}
                    - batch_norm: {name: norm2}
        - concat:
            - []
            - - batch_norm: {name: norm3, activation: silu}
              - conv2d: {name: conv3, filters: 4, kernel: 3, padding: same}
  - squeeze_excite: {units: 4}
  - global_avg_pool2d
  - dense: classes
)";

Model model_with(const std::string& keys, const std::string& layers = network,
                 const Shape& input = {6, 8, 8, 3}, int64_t classes = 3) {
  return build_model(YamlNode::parse(keys + "\nlayers:" + layers, "m.yaml"),
                     {.input = input, .classes = classes});
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<double>> tensors;  // gradients, weights, running statistics
};

/// Three steps of gradient descent.
Trained train(const Model& model, const std::vector<std::string>& frozen = {}) {
  if (!frozen.empty()) model.net->freeze(frozen);
  ParameterArena arena(model.net->parameters(), cpu_device, 5, {});
  const Tensor labels = from_vector({0, 1, 2, 0, 1, 2}, {6}, {.dtype = DType::i64});
  Trained trained;
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor images = rand_normal(model.input, 0, 1, 1, step);
    arena.zero_grad();
    const Pass pass{.training = true, .seed = 3, .step = step};
    const Tensor loss = cross_entropy((*model.net)(images, pass), labels);
    trained.losses.push_back(loss.item());
    backward(loss);
    arena.commit_buffers();
    const NoGrad update;
    for (const auto& parameter : arena.parameters()) {
      const Tensor& gradient = parameter->gradient();
      trained.tensors.push_back((gradient.defined() ? gradient : parameter->value()).to_vector());
      if (gradient.defined()) parameter->master().copy_(parameter->master() - gradient * 0.1);
    }
  }
  return trained;
}

TEST(RecomputedBlocks, TrainAsOthersBitForBit) {
  for (const std::vector<std::string>& frozen : std::vector<std::vector<std::string>>{
           {}, {"stem"}, {"stem", "stage.block0"}, {"stage.block1.norm", "stage.block1.norm2"}}) {
    const Trained expected = train(model_with(""), frozen);
    for (const std::string keys :
         {"recompute: true", "recompute: [stage.block1]",
          "overrides: {residual: {recompute: true}, concat: {recompute: true}}",
          "recompute: [stage]\noverrides: {residual: {recompute: true}}",
          "recompute: true\nfuse: true"}) {
      const Trained found = train(model_with(keys), frozen);
      EXPECT_EQ(found.losses, expected.losses) << keys << ", " << frozen.size() << " frozen";
      EXPECT_EQ(found.tensors, expected.tensors) << keys << ", " << frozen.size() << " frozen";
    }
  }
}

/// Operators that a forward pass recorded or ran, and those that backward recorded.
struct Counted final : TapeObserver {
  Counted() { grad_mode.observer = this; }
  ~Counted() override { grad_mode.observer = nullptr; }
  void on_record(const Node&, Tensors, Tensors) override { ++(inside > 0 ? again : once); }
  void on_backward_begin(const Node&) override { ++inside; }
  void on_backward_end(const Node&) override { --inside; }
  int inside = 0, once = 0, again = 0;
};

TEST(RecomputedBlocks, NothingRunsAgainInEvaluation) {
  for (const bool training : {true, false}) {
    const Model model = model_with("recompute: true");
    const ParameterArena arena(model.net->parameters(), cpu_device, 5, {});
    const Tensor images = rand_normal(model.input, 0, 1, 1, 1);
    Counted counted;
    backward(sum((*model.net)(images, {.training = training})));
    EXPECT_EQ(counted.again > 0, training);
  }
}

TEST(RecomputedBlocks, CarriedStatesBeginTheSecondTimeAsTheFirst) {
  const auto run = [](const std::string& keys) {
    const Model model = model_with(keys, R"(
  - sequential:
      - gru: {units: 4, return_sequences: true}
      - gru: {units: 4, layers: 2, dropout: 0.5, return_sequences: true}
  - dense: 3
)",
                                   {5, 2, 3}, 0);
    const ParameterArena arena(model.net->parameters(), cpu_device, 5, {});
    CarriedStates states;
    for (uint64_t part = 0; part < 3; ++part) {
      const Tensor x = rand_normal(model.input, 0, 1, 1, part);
      const Pass pass{.training = true, .seed = 1, .step = part, .states = &states};
      backward(sum(pow((*model.net)(x, pass), 2)));
    }
    std::vector<std::vector<double>> all;
    for (const auto& parameter : arena.parameters()) {
      all.push_back(parameter->gradient().to_vector());
    }
    for (const auto& [path, state] : states) all.push_back(state.h.to_vector());
    return all;
  };
  EXPECT_EQ(run("recompute: true"), run(""));
}

const std::string deep = R"(
  - repeat:
      n: 8
      layers:
        - residual:
            name: block{i}
            body:
              - conv2d: {name: a, filters: 16, kernel: 3, padding: same}
              - batch_norm: {name: b, activation: relu}
              - conv2d: {name: c, filters: 16, kernel: 3, padding: same}
              - batch_norm: {name: d}
  - global_avg_pool2d
  - dense: classes
)";

TEST(RecomputedBlocks, TakeTheMemoryThatIsPredicted) {
  const auto peak = [](const std::string& keys) {
    const Model model = model_with(keys, deep, {6, 32, 32, 16});
    Backend& backend = backend_of(cpu_device);
    const int64_t before = backend.memory_stats().allocated;
    backend.reset_peak();
    train(model);
    const int64_t found = backend.memory_stats().peak_tensors - before;
    const MemoryPrediction predicted = summarize(model, {.moments_per_parameter = 0}).training;
    EXPECT_NEAR(static_cast<double>(found), static_cast<double>(predicted.tensors()),
                0.05 * static_cast<double>(found))
        << keys;
    return std::pair(found, predicted.activations);
  };
  const auto [all, kept] = peak("");
  const auto [less, kept_less] = peak("recompute: true");
  EXPECT_LT(less, all / 2);
  // Eight inputs, and what is behind the blocks, of 6 * 32 * 32 * 16 elements each; before, each
  // of the operators' results.
  EXPECT_LT(kept_less, kept / 3);
  EXPECT_EQ(
      summarize(model_with("", deep, {6, 32, 32, 16}), {.recompute = true}).training.tensors(),
      summarize(model_with("recompute: true", deep, {6, 32, 32, 16})).training.tensors());
}

TEST(RecomputedBlocks, AreTheOutermostOnes) {
  const auto blocks = [](const std::string& keys) {
    return recomputed_blocks(*model_with(keys).net);
  };
  EXPECT_THAT(blocks(""), ElementsAre());
  EXPECT_THAT(blocks("recompute: false"), ElementsAre());
  EXPECT_THAT(blocks("recompute: true"), ElementsAre("stage"));
  EXPECT_THAT(blocks("recompute: [stage]"), ElementsAre("stage"));
  EXPECT_THAT(blocks("recompute: [stage.block1]"), ElementsAre("stage.block1"));
  EXPECT_THAT(blocks("overrides: {residual: {recompute: true}}"),
              ElementsAre("stage.block0", "stage.block1"));
  const auto text = [](const std::string& preset) {
    Model model = build_model(
        YamlNode::parse(fmt::format("{{preset: {}, recompute: true}}", preset), "m.yaml"),
        {.input = {1, 64, 64, 3}, .classes = 10});
    return recomputed_text(recomputed_blocks(*model.net));
  };
  EXPECT_EQ(text("resnet50"), "recomputed in backward: 16 blocks, layer1.0, layer1.1 ... layer4.2");
  EXPECT_EQ(text("densenet121"),
            "recomputed in backward: 58 blocks, features.denseblock1.denselayer1, "
            "features.denseblock1.denselayer2 ... features.denseblock4.denselayer16");
  EXPECT_EQ(text("vgg16"), "");
}

TEST(RecomputedBlocks, WrongSettingsAreNamed) {
  const auto error = [](const std::string& keys, const std::string& layers = network) {
    return test::message_of(ErrorKind::usage, [&] { model_with(keys, layers); });
  };
  EXPECT_EQ(error("recompute: [stage.blok1]"),
            "m.yaml:1:12: recompute: 'stage.blok1' selects no block to recompute; did you mean "
            "'stage.block1'?");
  EXPECT_THAT(error("recompute: layer1"), HasSubstr("expected true, false or a list of names"));
  EXPECT_THAT(error("", "\n  - dense: {units: 3, recompute: true}\n"), HasSubstr("recompute"));
  const Model flat = model_with("recompute: true", "\n  - global_avg_pool2d\n  - dense: 3\n");
  EXPECT_THAT(flat.unused,
              ElementsAre("model.recompute has no effect: the model has no sequential, residual, "
                          "concat or multiply"));
}

}  // namespace
}  // namespace whisker
