// From a configuration to everything a run needs: frozen parts, initial weights, new heads, groups.
#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"
#include "train/metrics/evaluate.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

std::map<std::string, std::vector<float>> values_of(const Experiment& experiment) {
  std::map<std::string, std::vector<float>> values;
  for (const auto& p : experiment.arena->parameters())
    values[p->name()] = experiment.arena->read(*p);
  return values;
}

std::string error_of(const Config& config, ErrorKind kind) {
  return message_of(kind, [&] { const Experiment experiment(config); });
}

TEST(Experiment, FrozenPartsAndTheirStatisticsStay) {
  const StripeFolder data;
  TestRun run(data.config({"freeze=['conv2d', 'batch_norm']", "ema.decay=0.5"}));
  const auto before = values_of(run.experiment);
  run.train();
  const auto after = values_of(run.experiment);
  for (const auto& [name, values] : before) {
    const bool frozen = name.starts_with("conv2d.") || name.starts_with("batch_norm.");
    EXPECT_EQ(after.at(name) == values, frozen) << name;
  }
  EXPECT_THAT(run.experiment.notes, testing::Contains(HasSubstr("parameter tensors are frozen")));
}

TEST(Experiment, InitialWeightsAndANewHead) {
  const StripeFolder data;
  TestRun first(data.config({"train.epochs=1"}));
  first.train();
  const auto trained = values_of(first.experiment);
  const std::string from = "init.from=" + first.folder.best().string();
  const Experiment same(data.config({from}));
  EXPECT_EQ(values_of(same), trained);

  const StripeFolder three(3);
  const Experiment other(three.config({from}));
  const Experiment fresh(three.config());
  const auto loaded = values_of(other), random = values_of(fresh);
  for (const auto& [name, values] : loaded) {
    EXPECT_EQ(values, name.starts_with("dense.") ? random.at(name) : trained.at(name)) << name;
  }
  EXPECT_EQ(std::ranges::count_if(
                other.notes,
                [](const std::string& n) { return n.find("new head") != std::string::npos; }),
            1);
  EXPECT_THAT(error_of(three.config({from, "init.new_head=false"}), ErrorKind::checkpoint),
              HasSubstr("dense"));
  // As many classes of other names: a class's row of weights would stand for another class.
  const StripeFolder renamed;
  for (const char* set : {"train", "val"}) {
    std::filesystem::rename(renamed / set / "c1", renamed / set / "spots");
  }
  const Experiment named(renamed.config({from}));
  for (const auto& [name, values] : values_of(named)) {
    EXPECT_EQ(values == trained.at(name), !name.starts_with("dense.")) << name;
  }
  EXPECT_THAT(named.notes,
              testing::Contains(HasSubstr("(weights: c0, c1; data: c0, spots): "
                                          "dense.weight, dense.bias are re-initialised")));
  const Experiment kept(renamed.config({from, "init.new_head=false"}));
  EXPECT_EQ(values_of(kept), trained);
  EXPECT_THAT(kept.notes,
              testing::Contains(HasSubstr("keeps the head, though the classes differ")));
  const Experiment skipped(data.config({from, "init.skip=['conv2d_1.*']"}));
  EXPECT_NE(values_of(skipped).at("conv2d_1.weight"), trained.at("conv2d_1.weight"));
  EXPECT_EQ(values_of(skipped).at("conv2d.weight"), trained.at("conv2d.weight"));
  // The network itself can come from the file.
  const Experiment network(data.config({from, "model=from_weights"}));
  EXPECT_EQ(values_of(network), trained);
  EXPECT_THAT(error_of(data.config({"model=from_weights"}), ErrorKind::usage),
              HasSubstr("init.from"));
}

// The parameter keeps its grid, so that weights of any image size load into any other.
TEST(Experiment, PositionEmbeddingsServeImagesOfAnotherSize) {
  const StripeFolder data;
  const std::string transformer =
      "model.layers=[{conv2d: {filters: 8, kernel: 4, strides: 4}}, class_token, "
      "{position_embedding: {name: positions, grid: 4}}, {multi_head_attention: {heads: 2}}, "
      "first_token]";
  TestRun first(data.config({transformer, "train.epochs=1"}));
  first.train();
  const auto trained = values_of(first.experiment);
  for (const char* size : {"data.image_size=24", "data.image_size=12"}) {
    const std::string from = "init.from=" + first.folder.best().string();
    TestRun other(data.config({from, "model=from_weights", size, "train.epochs=1"}));
    EXPECT_EQ(values_of(other.experiment), trained) << size;
    other.train();
    EXPECT_NE(values_of(other.experiment).at("positions"), trained.at("positions")) << size;
    const Network network = Network::load(other.folder.best(), cpu_device);
    EXPECT_EQ(network.model().input, other.experiment.network->model().input.with(0, 1)) << size;
  }
}

TEST(Experiment, F1IsNamedAndOldRunsKeepTheirs) {
  const StripeFolder data(2, 8, 2);
  const auto best_of = [&](const Overrides& overrides, StartFrom start) {
    const Experiment experiment(data.config(overrides), start);
    return experiment.best_figure(*make_metrics(*experiment.network));
  };
  constexpr StartFrom fresh = StartFrom::initial_weights, resumed = StartFrom::checkpoint;
  EXPECT_EQ(best_of({"train.metric=f1"}, fresh).name, "f1_macro");
  EXPECT_EQ(best_of({"train.metric=f1", "train.positive_class=c0"}, fresh).label(), "f1_class(c0)");
  EXPECT_EQ(best_of({"train.metric=f1"}, resumed).name, "f1");
  EXPECT_EQ(best_of({"train.metric=f1_macro"}, resumed).name, "f1_macro");
  const Experiment said(data.config({"train.metric=f1"}));
  EXPECT_THAT(said.notes, testing::Contains(HasSubstr("train.metric: f1 is f1_macro")));
  EXPECT_THAT(print_config(said.config), HasSubstr("metric: f1_macro"));
  EXPECT_THAT(error_of(data.config({"train.metric=f1_class"}), ErrorKind::usage),
              HasSubstr("Name it: train.positive_class, one of 'c0', 'c1'"));
  EXPECT_THAT(error_of(data.config({"train.positive_class=C0"}), ErrorKind::usage),
              HasSubstr("train.positive_class: expected one of 'c0', 'c1', got 'C0'"));
  std::filesystem::remove_all(data / "val/c1");
  EXPECT_THAT(
      error_of(data.config({"train.metric=f1_class", "train.positive_class=c1"}), ErrorKind::data),
      HasSubstr("f1_class is that of 'c1', of which the validation data have no images"));
  EXPECT_EQ(best_of({"train.metric=f1_class", "train.positive_class=c1"}, resumed).name,
            "f1_class");
}

TEST(Experiment, ARunTrainsSomething) {
  const StripeFolder data;
  EXPECT_THAT(error_of(data.config({"freeze=['*']"}), ErrorKind::usage),
              HasSubstr("freeze: no parameter is left to train. Freeze fewer"));
  EXPECT_THAT(error_of(data.config({"freeze=['*']", "unfreeze_at=1"}), ErrorKind::usage),
              HasSubstr("no parameter is left to train before unfreeze_at"));
}

// What a run was told about its classes goes with its weights.
TEST(Experiment, ThePositiveClassStandsInTheWeights) {
  const StripeFolder data(2, 8, 2);
  TestRun run(data.config({"train.positive_class=c0", "train.epochs=1"}));
  run.train();
  EXPECT_EQ(Network::load(run.folder.best(), cpu_device).signature().positive_class, "c0");
  const auto given = [&](const GivenFacts& facts) {
    return Network::load(run.folder.best(), cpu_device, facts).signature().positive_class;
  };
  EXPECT_EQ(given({.positive_class = "c1"}), "c1");
  EXPECT_EQ(given({.classes = {"a", "b"}}), "a");
  EXPECT_EQ(given({.classes = {"a", "b"}, .positive_class = "b"}), "b");
  EXPECT_THAT(message_of(ErrorKind::usage, [&] { given({.positive_class = "x"}); }),
              HasSubstr("--positive-class: expected one of 'c0', 'c1', got 'x'"));
}

TEST(Experiment, GroupsHaveTheirOwnRate) {
  const StripeFolder data;
  TestRun run(
      data.config({"optimizer.groups=[{pattern: 'conv2d.*', lr_factor: 0}]", "train.epochs=1"}));
  const auto before = values_of(run.experiment);
  run.train();
  const auto after = values_of(run.experiment);
  EXPECT_EQ(after.at("conv2d.weight"), before.at("conv2d.weight"));
  EXPECT_NE(after.at("conv2d_1.weight"), before.at("conv2d_1.weight"));
  EXPECT_THAT(error_of(data.config({"optimizer.groups=[{pattern: 'nothing*'}]"}), ErrorKind::usage),
              HasSubstr("nothing*"));
}

TEST(Experiment, ValidationIsSplitOffOrMustFit) {
  const StripeFolder data;
  const Experiment split(data.config({"data.val=\"\"", "data.val_split=0.25"}));
  EXPECT_EQ(split.data.train_size, 30);
  EXPECT_EQ(split.data.val_size, 10);
  EXPECT_THAT(error_of(data.config({"data.train=\"\""}), ErrorKind::usage),
              HasSubstr("data.train"));
  EXPECT_THAT(
      error_of(data.config({"train.batch_size=64", "train.drop_last=true"}), ErrorKind::usage),
      HasSubstr("do not fill one batch"));
  Config half = data.config();
  half.precision = PrecisionKind::f16;
  EXPECT_THAT(error_of(half, ErrorKind::usage), HasSubstr("precision"));
  EXPECT_THAT(error_of(data.config({"freeze=['nothing*']"}), ErrorKind::usage),
              HasSubstr("nothing*"));
}

TEST(Experiment, TrainingDataAloneAreEnough) {
  const StripeFolder data;
  const auto without_val = [&](const char* folder) {
    return data.config({"data.val=\"\"", "data.train=" + (data / folder).string()});
  };
  const Experiment fifth(without_val("train"));
  EXPECT_EQ(fifth.data.train_size, 32);
  EXPECT_EQ(fifth.data.val_size, 8);
  EXPECT_EQ(fifth.config.data.val_split, 0.2);
  EXPECT_THAT(fifth.notes, testing::Contains(HasSubstr("a fifth of data.train is the validation")));
  const Experiment both(without_val(""));  // holds train/ and val/
  EXPECT_EQ(both.data.train_size, 40);
  EXPECT_EQ(both.data.val_size, 10);
  EXPECT_EQ(both.config.data.val, (data / "val").string());
  EXPECT_THAT(both.notes, testing::Contains(HasSubstr("data.val is ")));
  // As printed, the configuration repeats the split.
  const Experiment again(read_config_text(print_config(fifth.config), "printed"));
  EXPECT_EQ(again.data.fingerprint, fifth.data.fingerprint);
  EXPECT_THAT(again.notes, testing::Not(testing::Contains(HasSubstr("a fifth"))));
}

// A cache, decode: exact and deterministic promise the CPU's pixels.
TEST(Experiment, GpuDecodingIsRefusedWhereExactPixelsArePromised) {
  const StripeFolder data;
  for (const char* exact : {"data.decode=exact", "data.cache=memory", "deterministic=true"}) {
    EXPECT_THAT(error_of(data.config({exact, "data.gpu_decode=50"}), ErrorKind::usage),
                HasSubstr("data.gpu_decode: expected auto or 0 with"))
        << exact;
    EXPECT_EQ(error_of(data.config({exact, "data.gpu_decode=0"}), ErrorKind::usage), "no error");
    EXPECT_EQ(error_of(data.config({exact}), ErrorKind::usage), "no error");
  }
  // Only a GPU asks who decodes.
  EXPECT_EQ(error_of(data.config({"data.gpu_decode=50"}), ErrorKind::usage), "no error");
}

TEST(Experiment, FewerCoresLeaveMoreFilesToTheGpu) {
  EXPECT_EQ(auto_gpu_decode(1), 75);
  EXPECT_EQ(auto_gpu_decode(4), 75);
  EXPECT_EQ(auto_gpu_decode(8), 50);
  EXPECT_EQ(auto_gpu_decode(9), 0);
  EXPECT_EQ(gpu_decode_note(0, "auto is 0 with 16 CPU cores: ", "nvJPEG 13.0"),
            "data.gpu_decode: auto is 0 with 16 CPU cores: the CPU decodes all JPEG files");
  EXPECT_EQ(gpu_decode_note(30, "", "nvJPEG 13.0"),
            "data.gpu_decode: nvJPEG 13.0 decodes 30 % of the training batches' JPEG files");
}

TEST(Experiment, PlateauWaitsForTheMetricThatIsBest) {
  const StripeFolder data;
  for (const bool by_accuracy : {true, false}) {
    const Experiment experiment(
        data.config({"schedule.kind=plateau", "schedule.patience=0",
                     by_accuracy ? "train.metric=accuracy" : "train.metric=loss"}));
    const double first = experiment.schedule->at(0);
    for (const double metric : {0.5, 0.6, 0.7}) experiment.schedule->observe(metric);  // rising
    EXPECT_EQ(experiment.schedule->at(0) == first, by_accuracy);
  }
}

TEST(Experiment, OverfitBatchesAreAFewImagesForBoth) {
  const StripeFolder data;
  const Experiment experiment(data.config({"train.overfit_batches=2"}));
  EXPECT_EQ(experiment.data.train_size, 16);
  EXPECT_EQ(experiment.data.val_size, 16);
}

TEST(Experiment, TrainingImagesMayHaveASizeOfTheirOwn) {
  const StripeFolder data;
  TestRun run(data.config({"data.train_image_size=12", "data.resize_short=20", "train.epochs=1"}));
  EXPECT_EQ(run.experiment.network->model().input, (Shape{8, 12, 12, 3}));
  run.experiment.train->start_epoch(1);
  EXPECT_EQ(run.experiment.train->next()->inputs.shape(), (Shape{8, 12, 12, 3}));
  run.experiment.val->start_epoch(0);
  EXPECT_EQ(run.experiment.val->next()->inputs.shape(), (Shape{8, 16, 16, 3}));
  EXPECT_EQ(run.train().epochs, 1);
  const Network trained = Network::load(run.folder.best(), cpu_device);
  EXPECT_EQ(trained.preprocess().output(), (ImageSize{.height = 16, .width = 16}));
  EXPECT_EQ(trained.preprocess().resize_short, 20);

  const std::string error = error_of(
      data.config({"data.train_image_size=12", "model={layers: [flatten, {dense: classes}]}"}),
      ErrorKind::usage);
  EXPECT_THAT(error, HasSubstr("data.train_image_size: 12 fits the network, but not images of "
                               "data.image_size 16"));
  EXPECT_THAT(error, HasSubstr("global_avg_pool2d"));
}

TEST(Experiment, SaysWhichSettingsHaveNoEffect) {
  const TemporaryFolder folder;
  const auto notes_of = [](const Config& config) {
    std::string text;
    for (const std::string& note : Experiment(config).notes) text += note + "; ";
    return text;
  };
  const std::string forecast = notes_of(series_config(
      folder, {"optimizer.momentum=0.9",
               "model.layers=[{gru: {units: 4, dropout: 0.2}}, {dense: {units: 1, activation: "
               "sigmoid}}]"}));
  EXPECT_THAT(forecast,
              HasSubstr("optimizer.momentum has no effect: it is for optimizer.kind sgd"));
  EXPECT_THAT(forecast, HasSubstr("gru: dropout has no effect"));
  EXPECT_THAT(forecast, HasSubstr("the last layer's sigmoid has no effect: a forecast's outputs"));
  const auto ends_with = [&](const char* activation) {
    return notes_of(series_config(
        folder,
        {fmt::format("model.layers=[{{gru: {{units: 4}}}}, {{dense: {{units: 1, activation: "
                     "{}}}}}]",
                     activation)}));
  };
  EXPECT_THAT(
      ends_with("relu"),
      HasSubstr("the last layer's relu limits its outputs to 0 and above: targets are scaled "
                "to mean 0 and deviation 1, and nothing beyond can be forecast"));
  EXPECT_THAT(ends_with("tanh"), HasSubstr("the last layer's tanh limits its outputs to -1 to 1"));
  EXPECT_THAT(ends_with("linear"), testing::Not(HasSubstr("last layer")));
  EXPECT_THAT(notes_of(language_config(folder)), testing::Not(HasSubstr("no effect")));
  const StripeFolder data;
  EXPECT_THAT(notes_of(data.config()),
              testing::Not(testing::AnyOf(HasSubstr("no effect"), HasSubstr("last layer"))));
  EXPECT_THAT(notes_of(data.config({"freeze_norm=true", "model.layers=[global_avg_pool2d]"})),
              HasSubstr("freeze_norm has no effect: the model has no normalisation layer"));
  const std::string one_unit =
      notes_of(data.config({"model.head=[{dense: {units: 1, activation: softmax}}]"}));
  EXPECT_THAT(
      notes_of(data.config({"model.head=[{dense: {units: classes, activation: relu}}, "
                            "softmax]"})),
      HasSubstr("the last layer's relu limits its outputs to 0 and above: the loss takes them "
                "for logits"));
  EXPECT_THAT(one_unit, HasSubstr("softmax over one unit would always be 1: taken as a sigmoid"));
}

TEST(Experiment, SmallerTrainingImagesKeepTheMiddleOfTheirCrop) {
  DataConfig data;
  data.image_size = 128;
  data.resize_short = 144;
  EXPECT_EQ(training_preprocess_of(data).json(), preprocess_of(data).json());
  data.train_image_size = 112;
  EXPECT_EQ(training_preprocess_of(data).resize_short, 126);
  EXPECT_EQ(training_preprocess_of(data).output(), (ImageSize{.height = 112, .width = 112}));
  EXPECT_EQ(preprocess_of(data).output(), (ImageSize{.height = 128, .width = 128}));
}

}  // namespace
}  // namespace whisker::test
