// Summaries against known counts, and predicted memory against what the tape really keeps.
#include "layers/analysis/summary.h"

#include "core/backend/backend.h"
#include "layers/memory_plan.h"
#include "tests/support/devices.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

Model built_for(const std::string& text, const Shape& input, int64_t classes) {
  return build_model(YamlNode::parse(text, "m.yaml"), {.input = input, .classes = classes});
}

struct PublishedCount {
  const char* preset;
  int64_t multiply_adds;
};

TEST(Summary, MultiplyAddsAreThePublishedOnes) {
  // torchvision's model pages, in thousands of millions, rounded there to three digits.
  const PublishedCount rows[] = {{"resnet18", 1'814'000'000},
                                 {"resnet50", 4'089'000'000},
                                 {"vgg16", 15'470'000'000},
                                 {"squeezenet1_1", 349'000'000}};
  for (const PublishedCount& row : rows) {
    const ModelSummary summary = summarize(built_for(row.preset, {4, 224, 224, 3}, 1000));
    EXPECT_NEAR(static_cast<double>(summary.multiply_adds), static_cast<double>(row.multiply_adds),
                1e6)
        << row.preset;
  }
}

// A backend may pad channels in a layout of its own.
constexpr double padding = 0.05;

// Bytes alive after a training pass that were not before; `x_kept`: the first layer is trained.
int64_t measured_bytes(const Model& model, bool x_kept, Device device = cpu_device) {
  const ParameterArena arena(model.net->parameters(), device, 1);
  const Tensor x = rand_normal(model.input, 0, 1, 1, 1, {.device = device});
  const Backend& backend = backend_of(device);
  const int64_t before = backend.memory_stats().allocated;
  const Tensor y = model.net->forward(x, {.training = true});
  return backend.memory_stats().allocated - before + (x_kept ? x.bytes() : 0);
}

TEST(Summary, ActivationsKeptForBackwardAreThePredictedOnes) {
  const std::pair<const char*, Shape> rows[] = {{"keras_small", {2, 64, 64, 3}},
                                                {"chollet", {2, 128, 128, 3}},
                                                {"resnet18", {2, 64, 64, 3}},
                                                {"squeezenet1_1", {2, 96, 96, 3}}};
  for (const auto& [preset, input] : rows) {
    const Model model = built_for(preset, input, 2);
    const auto predicted = static_cast<double>(summarize(model).training.activations);
    EXPECT_NEAR(static_cast<double>(measured_bytes(model, true)), predicted, padding * predicted)
        << preset;
  }
}

// Beside what the CPU keeps, in MiB, as the backends of an H200 asked for it.
TEST(Summary, RecurrentLayersKeepWhatTheDeviceDoes) {
  struct Case {
    const char* layer;
    int64_t f32, sixteen_bits;
  };
  for (const Case& row : {Case{"lstm", 0, -9}, Case{"gru", 8, -9}, Case{"simple_rnn", 0, -5}}) {
    const Model model =
        built_for(fmt::format("layers: [{}: {{units: 128, layers: 2}}, dense: classes]", row.layer),
                  {64, 64, 1}, 2);
    const auto more = [&](int64_t width) {
      return MemoryPlan::of(*model.net, model.input, Device{DeviceKind::cuda}).kept_bytes(width) -
             MemoryPlan::of(*model.net, model.input, cpu_device).kept_bytes(width);
    };
    EXPECT_EQ(more(4), row.f32 << 20) << row.layer;
    EXPECT_EQ(more(2), row.sixteen_bits * (1 << 20)) << row.layer;
  }
}

// In MiB, as measured on an H100: where a block's gradient comes in two parts, its norm adds them.
TEST(Summary, BothPartsOfAGradientWaitForANormOfTheGpu) {
  const Model model = built_for("small_resnet", {128, 64, 64, 3}, 2);
  const MemoryPlan plan =
      MemoryPlan::of(*model.net, model.input, Device{DeviceKind::cuda}, DType::f32, true);
  EXPECT_NEAR(static_cast<double>(plan.training_bytes(4)) / (1 << 20), 63, 0.1);
}

// A GPU fuses the two.
TEST(Summary, ActivationsKeptByNormAndPoolingAreThePredictedOnes) {
  const Model model = built_for(R"(
layers:
  - conv2d: {filters: 16, kernel: 3, padding: 1, bias: false}
  - batch_norm
  - relu
  - max_pool2d: {kernel: 3, strides: 2, padding: 1}
  - conv2d: {filters: 4, kernel: 3}
head:
  - flatten
  - dense: {units: classes}
)",
                                {4, 16, 16, 3}, 2);
  for (const Device device : test::test_devices()) {
    if (device.kind == DeviceKind::reference) continue;  // its pooling keeps wider positions
    const SummaryOptions options{.device = device};
    const auto predicted = static_cast<double>(summarize(model, options).training.activations);
    EXPECT_NEAR(static_cast<double>(measured_bytes(model, true, device)), predicted,
                padding * predicted)
        << device.str();
  }
}

// Fused on the CPU, and where a GPU's kernels are; elsewhere the scores are kept.
TEST(Summary, ActivationsKeptByAttentionAreThePredictedOnes) {
  for (const char* dropout : {"0", "0.1"}) {
    const Model model = built_for(
        fmt::format("layers: [{{multi_head_attention: {{heads: 2, dropout: {}}}}}, flatten, "
                    "{{dense: {{units: classes}}}}]",
                    dropout),
        {2, 8, 8, 16}, 2);
    for (const Device device : test::test_devices()) {
      const MemoryPrediction predicted = summarize(model, {.device = device}).training;
      EXPECT_NEAR(static_cast<double>(measured_bytes(model, true, device)),
                  static_cast<double>(predicted.activations),
                  padding * static_cast<double>(predicted.activations))
          << device.str() << ", dropout " << dropout;
    }
  }
  const Model model = built_for("layers: [{multi_head_attention: {heads: 2}}]", {2, 8, 8, 16}, 0);
  const auto kept = [&](Device device) { return summarize(model, {.device = device}).training; };
  const int64_t scores = 2 * 2 * 64 * 64, results = 2 * 64 * 16, rows = 2 * 2 * 64;
  EXPECT_EQ(kept(reference_device).activations - kept(cpu_device).activations,
            4 * (scores + results - rows));
  EXPECT_GE(kept(reference_device).scratch, 4 * 2 * scores);
  const ModelSummary elsewhere =
      summarize(model, {.compute = DType::bf16, .device = {DeviceKind::cuda, 99}});
  ASSERT_EQ(elsewhere.notes.size(), 1u);
  EXPECT_EQ(elsewhere.notes[0], "attention (assumed: cuda:99 is not here to ask)");
}

TEST(Summary, FrozenLayersKeepNothing) {
  const Model model = built_for("squeezenet1_1", {2, 96, 96, 3}, 2);
  const std::vector<std::string> patterns = {"features"};
  model.net->freeze(patterns);
  const ModelSummary summary = summarize(model);
  EXPECT_EQ(summary.frozen, 722'496);
  EXPECT_EQ(summary.trainable, 2 * 513);
  const int64_t features = 2 * 5 * 5 * 512 * 4, logits = 2 * 5 * 5 * 2 * 4;
  EXPECT_EQ(summary.training.activations, features + logits);
  const auto kept = static_cast<double>(features + logits);
  EXPECT_NEAR(static_cast<double>(measured_bytes(model, false)), kept, padding * kept);
}

TEST(Summary, InferenceHoldsWhatIsStillNeeded) {
  // 2x4x4x1 in, 8 filters: the residual keeps its input alive while the body runs.
  const Model model = built_for(R"(
layers:
  - residual:
      activation: none
      body:
        - conv2d: {filters: 8, kernel: 1}
        - conv2d: {filters: 1, kernel: 1}
)",
                                {2, 4, 4, 1}, 0);
  // Input 32, first result 256, second 32 elements.
  EXPECT_EQ(summarize(model).inference.activations, (32 + 256 + 32) * 4);
}

TEST(Summary, TheTableReads) {
  const Model model = built_for(R"(
layers:
  - conv2d: {name: conv1, filters: 4, kernel: 3}
  - relu
  - flatten
head:
  - dense: {name: fc, units: classes}
)",
                                {8, 10, 10, 3}, 5);
  const std::vector<std::string> patterns = {"conv1"};
  model.net->freeze(patterns);
  const SummaryOptions options{.moments_per_parameter = 1, .device = reference_device};
  EXPECT_EQ(to_text(summarize(model, options)),
            "layer    operator           output       parameters  multiply-adds  activations\n"
            "-------  -----------------  -----------  ----------  -------------  -----------\n"
            "input                       (8,10,10,3)\n"
            "conv1    conv2d 4 3x3 relu  (8,8,8,4)    112 frozen          6,912      8.0 KiB\n"
            "flatten  flatten            (8,256)\n"
            "fc       dense 5            (8,5)             1,285          1,280        160 B\n"
            "\n"
            "parameters 1,397: trainable 1,285, frozen 112\n"
            "multiply-adds per image 8,192\n"
            "fused: relu into conv1\n"
            "\n"
            "predicted memory for a batch of 8\n"
            "training   34.2 KiB: values 6.0 KiB + gradients 5.2 KiB + optimizer 5.2 KiB + "
            "activations 8.0 KiB + transient 9.7 KiB\n"
            "inference  22.8 KiB: values 5.5 KiB + activations 17.4 KiB\n");
  const std::string narrow = to_text(summarize(model, {.moments_per_parameter = 1}), 72);
  EXPECT_NE(narrow.find("conv1    conv2d 4    (8,8,8,4)    112 frozen          6,912      8.0 KiB\n"
                        "         3x3 relu\n"),
            std::string::npos)
      << narrow;
  EXPECT_NE(narrow.find(" KiB +\n           optimizer"), std::string::npos) << narrow;
}

}  // namespace
}  // namespace whisker
