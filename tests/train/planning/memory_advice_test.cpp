// A run that does not fit says which batch would, and that batch fits; remedies save what they
// say; and the prediction behind all of it is what steps of the presets really take.
#include "train/planning/memory_advice.h"

#include "core/backend/backend.h"
#include "tests/support/devices.h"
#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"
#include "train/loop/train_step.h"
#include "train/planning/dry_run.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A device has this much while the object lives.
class Limit {
 public:
  Limit(Device device, int64_t bytes) : backend_(backend_of(device)) {
    backend_.empty_cache();
    backend_.set_memory_options({.limit_bytes = bytes});
  }
  ~Limit() { backend_.set_memory_options({}); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  Backend& backend_;
};

using MemoryAdviceOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, MemoryAdviceOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

// "no error" when the run fits.
std::string error_with(const StripeFolder& data, Device device, int64_t batch, int64_t limit) {
  const Limit limited(device, limit);
  return message_of(ErrorKind::device, [&] {
    dry_run(data.config({"device=" + device.str(), "precision=f32",
                         fmt::format("train.batch_size={}", batch), "data.image_size=128"}));
  });
}

TEST_P(MemoryAdviceOn, TheBatchItNamesFits) {
  const StripeFolder data(2, 40, 5);
  int64_t told = 0;
  for (const int64_t limit_mib : {72, 100, 128}) {
    const int64_t limit = limit_mib << 20;
    const std::string error = error_with(data, GetParam(), 80, limit);
    ASSERT_THAT(error, HasSubstr("out of memory")) << limit_mib << " MiB";
    for (const char* part :
         {" MiB needed", " MiB held (", " MiB free", "precision=bf16", "train.accumulate="}) {
      EXPECT_THAT(error, HasSubstr(part));
    }
    const size_t at = error.find("train.batch_size=");
    ASSERT_NE(at, std::string::npos) << error;
    const int64_t fits = std::stoll(error.substr(at + 17));
    EXPECT_EQ(error_with(data, GetParam(), fits, limit), "no error")
        << fits << " images in " << limit_mib << " MiB";
    ++told;
  }
  fmt::print("{}: limits of memory for which a batch was named that fits: {}\n", GetParam().str(),
             told);
}

TEST(MemoryAdvice, SaysThatNothingFitsOfOneImageOnly) {
  const StripeFolder data;
  const char* const nothing = "Not even a batch of one image fits: use a smaller data.image_size";
  const Experiment one(data.config({"train.batch_size=1"}));
  EXPECT_THAT(memory_advice(one, 1000), HasSubstr(nothing));
  const Experiment eight(data.config());
  EXPECT_EQ(batch_that_fits(eight, 1000), 0) << "none is predicted to";
  EXPECT_THAT(memory_advice(eight, 1000), Not(HasSubstr(nothing)));
  EXPECT_THAT(memory_advice(eight, 1000),
              StartsWith("A smaller train.batch_size may fit; train.batch_size=auto finds the "
                         "largest that does."));
  EXPECT_EQ(batch_that_fits(eight, int64_t{1} << 40), 4) << "half of what did not fit";
}

TEST(MemoryAdvice, NamesTheSettingThatRecomputes) {
  const StripeFolder data;
  const auto advice = [&](const std::string& model) {
    return memory_advice(
        Experiment(data.config({"model=" + model, "data.image_size=64", "train.batch_size=16"})),
        int64_t{64} << 20);
  };
  EXPECT_THAT(advice("small_resnet"),
              HasSubstr(" 'model={preset: small_resnet, recompute: true}': "));
  EXPECT_THAT(advice("{preset: small_resnet}"), HasSubstr(" model.recompute=true: "));
  EXPECT_THAT(advice("{preset: small_resnet, recompute: true}"), Not(HasSubstr("recompute")));
}

// The advice speaks of what the batches hold and names what makes that smaller.
TEST(MemoryAdvice, SpeaksOfWhatTheRunIsTrainedOn) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  folder.write("rows.csv", "0.5,1.5,2.5,a\n0.1,0.2,0.3,b\n1,2,3,a\n4,5,6,b\n");
  const auto rows_config = [&](const Overrides& overrides) {
    return text_config(
        folder,
        joined({"data.kind=rows", "data.train=" + (folder / "rows.csv").string(),
                "data.val_split=0.5", "data.label_column=4", "model.layers=[{lstm: {units: 12}}]"},
               overrides));
  };
  const auto check = [](const auto& config_with, const char* example, const char* smaller) {
    const Experiment one(config_with(Overrides{"train.batch_size=1"}));
    EXPECT_THAT(
        memory_advice(one, 1000),
        HasSubstr(fmt::format("Not even a batch of one {} fits: {}. Of the ", example, smaller)));
    EXPECT_THAT(memory_advice(one, 1000), HasSubstr(fmt::format(" for 1 {} are saved", example)));
    const Experiment two(config_with(Overrides{"train.batch_size=2"}));
    EXPECT_THAT(memory_advice(two, int64_t{1} << 40),
                AllOf(HasSubstr(fmt::format(" for 2 {}s are saved by", example)),
                      HasSubstr(fmt::format("about as many {}s per update", example))));
  };
  const StripeFolder images;
  check([&](const Overrides& with) { return images.config(with); }, "image",
        "use a smaller data.image_size or network");
  check([&](const Overrides& with) { return text_config(folder, with); }, "text",
        "cut texts with data.text.max_length or use a smaller network");
  check([&](const Overrides& with) { return language_config(folder, with); }, "sequence",
        "use a smaller data.text.steps or network");
  check(rows_config, "row", "use shorter rows or a smaller network");
  check([&](const Overrides& with) { return series_config(folder, with); }, "window",
        "use a smaller data.series.window or network");
}

// What a step takes at most, tensors only and with what kernels work in, and what was predicted.
struct Peak {
  int64_t measured = 0;
  int64_t predicted = 0;
  int64_t measured_total = 0;
  int64_t predicted_total = 0;
};

// Of the first step, or with `captured` of all steps until one was replayed.
Peak peak_of(const Config& config, Device device, bool captured) {
  Backend& backend = backend_of(device);
  const int64_t before = backend.memory_stats().allocated;
  Experiment experiment(config);
  const int64_t rows = config.train.batch_size;
  const Model& model = experiment.network->model();
  const Shape shape = model.input.with(model.batch_axis, rows);
  Batch batch{
      .inputs =
          rand_normal(shape, 0, 1, 1, 1, {.device = device}).to(experiment.arena->compute_dtype()),
      .labels = zeros({rows}, {.dtype = DType::i64, .device = device}),
      .indices = std::vector<int64_t>(static_cast<size_t>(rows))};
  if (experiment.data.uneven) {
    batch.lengths = full({rows}, static_cast<double>(shape[0]), {.dtype = DType::i64});
  }
  backend.reset_peak();
  TrainStep step(experiment);
  step.begin({});
  int64_t steps = 0;
  do {
    step.run(batch, {.number = ++steps, .learning_rate = 0, .last_of_epoch = true});
  } while (captured && step.replays() == 0 && steps < 20);
  EXPECT_EQ(step.replays() > 0, captured);
  // Here the tensors that the graph reads come on top: a loader writes into them.
  const int64_t copies = captured ? batch.inputs.bytes() + batch.labels.bytes() : 0;
  const MemoryStats stats = backend.memory_stats();
  const MemoryPrediction predicted = predict_memory(experiment, rows);
  return {.measured = stats.peak_tensors - before - copies,
          .predicted = predicted.tensors(),
          .measured_total = stats.peak - before - copies,
          .predicted_total = predicted.total()};
}

using MemoryPredictionOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, MemoryPredictionOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

void expect_near(const Peak& peak, const std::string& what) {
  const double ratio = static_cast<double>(peak.predicted) / static_cast<double>(peak.measured);
  fmt::print("{}: predicted {:.2f} MiB, measured {:.2f} MiB, ratio {:.3f}\n", what,
             static_cast<double>(peak.predicted) / (1 << 20),
             static_cast<double>(peak.measured) / (1 << 20), ratio);
  EXPECT_NEAR(ratio, 1, 0.05) << what;
}

// Convolutions without norms, before dense layers with dropout: as VGG's, with fewer parameters.
constexpr const char* small_vgg =
    "{layers: [{conv2d: {filters: 32, kernel: 3, padding: 1, activation: relu}}, {max_pool2d: 2}, "
    "{conv2d: {filters: 64, kernel: 3, padding: 1, activation: relu}}, {max_pool2d: 2}], "
    "head: [{adaptive_avg_pool2d: 7}, flatten, {dense: {units: 64, activation: relu}}, "
    "{dropout: 0.5}, {dense: {units: classes}}]}";

// On a GPU each kind is captured in some types and eager in others.
TEST_P(MemoryPredictionOn, IsWithinFivePercentOfAStepOfEveryKindOfPreset) {
  struct Case {
    const char* preset;
    int64_t side, batch;
  };
  const Case cases[] = {
      {"keras_small", 64, 16},
      {"chollet", 128, 4},
      {"small_resnet", 64, 16},
      {"squeezenet1_1", 96, 16},
      {small_vgg, 32, 16},
      {"resnet18", 64, 16},
      {"{preset: resnet50, values: {n3: 1, n4: 1, w3: 64, w4: 64, c3: 256, c4: 256}}", 64, 8},
      {"{preset: small_resnet, recompute: true}", 64, 16},
      {"{preset: vit_s_16, values: {dim: 96, heads: 3, blocks: 3}}", 96, 8}};
  const StripeFolder data;
  bool captured = false;
  for (const Case& row : cases) {
    for (const DType dtype : test_dtypes(GetParam())) {
      captured = on_gpu() && !captured;
      const int64_t batch = on_gpu() ? 8 * row.batch : row.batch;
      const Config config = data.config(
          {"device=" + GetParam().str(), fmt::format("model={}", row.preset),
           fmt::format("precision={}", name_of(dtype)), fmt::format("data.image_size={}", row.side),
           fmt::format("train.batch_size={}", batch), "deterministic=true", "optimizer.kind=sgd",
           "optimizer.momentum=0.9"});
      expect_near(peak_of(config, GetParam(), captured),
                  fmt::format("{} {}{}", row.preset, name_of(dtype), captured ? ", captured" : ""));
    }
  }
}

// Rows of `steps` times `features` numbers behind their label, ever shorter ones if `uneven`.
std::string labelled_rows(int64_t steps, int64_t features, bool uneven) {
  std::string rows;
  for (int64_t row = 0; row < 8; ++row) {
    rows += row % 2 ? "a" : "b";
    const int64_t own_steps = uneven ? std::max<int64_t>(steps - row / 2, 1) : steps;
    for (int64_t i = 0; i < own_steps * features; ++i) rows += fmt::format(",{}", (row + i) % 7);
    rows.append(static_cast<size_t>((steps - own_steps) * features), ',');  // padding
    rows += "\n";
  }
  return rows;
}

// Tensors on a GPU; on the CPU also what its kernels say that they work in.
TEST_P(MemoryPredictionOn, IsWithinFivePercentOfAStepOfARecurrentNetwork) {
  struct Case {
    const char* layers;  // KIND stands for the layer's type
    int64_t steps, features, batch;
    bool uneven = false;
  };
  const Case cases[] = {
      {"{KIND: {units: 128, layers: 2}}", 64, 1, 64},
      {"{KIND: 64}", 64, 10, 16, true},
      {"{KIND: 64}", 4, 10, 16, true},
      {"{KIND: 32}", 16, 100, 32, true},  // a copy of the sequences is much
      {"{KIND: 32}", 16, 100, 32},
      {"{KIND: {units: 64, layers: 2}}", 32, 10, 16},
      {"{KIND: {units: 64, bidirectional: true}}", 100, 10, 1},
      {"{KIND: {units: 32, layers: 2, bidirectional: true, dropout: 0.3}}", 16, 10, 32, true},
      {"{KIND: {units: 64, layers: 5}}", 2, 3, 256},
      {"{KIND: {units: 64, return_sequences: true}}, {KIND: 32}", 64, 10, 16, true}};
  const TemporaryFolder folder;
  for (const Case& row : cases) {
    // The first is a GPU's: other layers there are cuDNN's, which keeps other amounts.
    if (on_gpu() != (&row == cases)) continue;
    const std::string file = fmt::format("{}_{}_{}.csv", row.steps, row.features, row.uneven);
    folder.write(file, labelled_rows(row.steps, row.features, row.uneven));
    for (const char* kind : {"lstm", "gru", "simple_rnn"}) {
      std::string layers = row.layers;
      for (size_t at = 0; (at = layers.find("KIND")) != std::string::npos;) {
        layers.replace(at, 4, kind);
      }
      for (const DType dtype : test_dtypes(GetParam())) {
        const Config config = text_config(
            folder,
            {"data.kind=rows", "data.train=" + (folder / file).string(), "data.val_split=0.5",
             "data.label_column=1", fmt::format("data.rows.features={}", row.features),
             "device=" + GetParam().str(), fmt::format("precision={}", name_of(dtype)),
             fmt::format("train.batch_size={}", row.batch), "deterministic=true",
             "optimizer.kind=sgd", "optimizer.momentum=0.9",
             fmt::format("model.layers=[{}]", layers)});
        const Peak peak = peak_of(config, GetParam(), false);
        const std::string what =
            fmt::format("{} of {} steps {}", layers, row.steps, name_of(dtype));
        if (on_gpu()) {
          expect_near(peak, what);
        } else {
          expect_near({.measured = peak.measured_total, .predicted = peak.predicted_total}, what);
        }
      }
    }
  }
}

// Each remedy can be followed, and lowers the peak of a step by what it said.
TEST_P(MemoryPredictionOn, RemediesSaveWhatTheySay) {
  const StripeFolder data;
  const Overrides base = {"device=" + GetParam().str(),
                          "precision=f32",
                          "data.image_size=32",
                          "train.batch_size=16",
                          "deterministic=true",
                          "optimizer.kind=sgd",
                          "optimizer.momentum=0.9",
                          "optimizer.nesterov=true",
                          "ema.decay=0.9",
                          "model.layers=[{conv2d: {filters: 64, kernel: 3, activation: relu}}, "
                          "{conv2d: {filters: 64, kernel: 3, strides: 2, activation: relu}}, "
                          "{conv2d: {filters: 512, kernel: 3, strides: 2, activation: relu}}, "
                          "global_avg_pool2d]"};
  const auto peak_with = [&](const std::string& settings) {
    Overrides overrides = base;
    std::istringstream words(settings);
    for (std::string word; words >> word;) overrides.push_back(word);
    return peak_of(data.config(overrides), GetParam(), false).measured;
  };
  const int64_t whole = peak_with("");
  std::vector<MemoryRemedy> remedies;
  {
    Experiment experiment(data.config(base));
    remedies = memory_remedies(experiment, 2 * whole);
  }
  ASSERT_GE(remedies.size(), 5u);
  EXPECT_TRUE(std::ranges::is_sorted(remedies, std::greater(), &MemoryRemedy::saved_bytes));
  for (const MemoryRemedy& remedy : remedies) {
    const auto said = static_cast<double>(remedy.saved_bytes);
    const auto saved = static_cast<double>(whole - peak_with(remedy.settings));
    fmt::print("{}: said {:.2f} MiB, saved {:.2f} MiB\n", remedy.settings, said / (1 << 20),
               saved / (1 << 20));
    EXPECT_NEAR(saved, said, 0.1 * said + 0.002 * static_cast<double>(whole)) << remedy.settings;
  }
}

}  // namespace
}  // namespace whisker::test
