// Configurations as a whole: what errors say, keys that belong together, overrides, printing, and
// what a resumed run may change.
#include "train/config/config.h"

#include "config_errors.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

TEST(Config, ErrorsSayPlaceKeyExpectationAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"model: chollet\noptimizer:\n  lr: fast\n",
       "test.yaml:3:7: optimizer.lr: expected a number above 0, got 'fast'."},
      {"model: chollet\noptimizer: {lr: 0}\n",
       "test.yaml:2:17: optimizer.lr: expected a number above 0, got '0'."},
      {"model: chollet\ntrain: {batch_size: 0.5}\n",
       "test.yaml:2:21: train.batch_size: expected auto or an integer from 1 to 65536, got '0.5'."},
      {"model: chollet\ndata: {val_split: 1}\n",
       "test.yaml:2:19: data.val_split: expected a number of at least 0 and below 1, got '1'."},
      {"model: chollet\ndata: {workers: many}\n",
       "test.yaml:2:17: data.workers: expected auto or an integer from 0 to 256, got 'many'."},
      {"model: chollet\noptimizer: {kind: adma}\n",
       "test.yaml:2:19: optimizer.kind: expected one of sgd, adam, adamw, rmsprop, got 'adma'. Did "
       "you mean 'adam'?"},
      {"model: chollet\ndata: {mean: [1, 2]}\n",
       "test.yaml:2:14: data.mean: expected 1 or 3 numbers, as data.channels is 3, got a list. "
       "The list has 2."},
      {"model: chollet\ntrian:\n  epochs: 3\n",
       "test.yaml:2:1: trian: unknown key. Did you mean 'train'?"},
      {"model: chollet\nseed: -1\n",
       "test.yaml:2:7: seed: expected an integer from 0 to 9007199254740992, got '-1'."},
      {"model: chollet\nseed: 010\n",
       "test.yaml:2:7: seed: expected an integer from 0 to 9007199254740992, got '010'."},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(error_of(text), error);
  EXPECT_THAT(error_of("train: {epochs: 3}\n"), HasSubstr("model: expected a preset's name"));
  EXPECT_THAT(error_of(""), HasSubstr("model: expected"));
  EXPECT_THAT(error_of("- a\n"), HasSubstr("test.yaml:1:1"));
  EXPECT_EQ(error_of("model: resnet18\n", {"model.recompute=true"}),
            "command line: model.recompute: model is the name 'resnet18' alone. Its keys are given "
            "with it: 'model={preset: resnet18, recompute: true}'.");
  EXPECT_THAT(error_of("model: resnet18\n", {"model.values.n3=2"}),
              HasSubstr("'model={preset: resnet18, ...}'"));
  EXPECT_THAT(error_of("model: chollet\nzzzzqqq: 1\n"),
              HasSubstr("Valid keys here: name, runs, seed"));
}

TEST(Config, OverridesOfTextAreTakenAsTheyStand) {
  const auto label_pattern = [](const std::string& value) {
    return read_config_text("model: chollet\n", "t", {"data.label_pattern=" + value})
        .data.label_pattern;
  };
  for (const std::string value : {"{label}/*/*", "*/{label}/*", "photos # new", "!t", "%p", "#h",
                                  "a: b", "[x]", "- d", "it's", " lead", "tail ", "007"}) {
    EXPECT_EQ(label_pattern(value), value);
  }
  for (const char* quoted : {"'{label}/*'", "\"{label}/*\""}) {
    EXPECT_EQ(label_pattern(quoted), "{label}/*");
  }
  for (const char* none : {"", "null", "~"}) EXPECT_EQ(label_pattern(none), "");
}

TEST(Config, KeysThatBelongTogetherAreChecked) {
  const auto refused = [&](const std::string& override, const char* path) {
    const std::string error = error_of("model: chollet\n", {override});
    EXPECT_THAT(error, HasSubstr(path)) << override;
    EXPECT_THAT(error, HasSubstr("expected")) << override;
  };
  refused("data.channels=2", "data.channels");
  refused("data.std=[1, 1]", "data.std");
  EXPECT_THAT(error_of("model: chollet\ndata: {channels: 1, mean: [1, 2, 3]}\n"),
              HasSubstr("data.mean: expected one number, as data.channels is 1, got a list."));
  refused("augment.crop_scale=[0.9, 0.1]", "augment.crop_scale");
  refused("schedule.milestones=[5, 3]", "schedule.milestones");
  refused("optimizer.nesterov=true", "optimizer.nesterov");
  EXPECT_THAT(error_of("model: chollet\ndata: {val: b}\n", {"data.val_split=0.1"}),
              HasSubstr("Set data.val_split=0"));
  EXPECT_THAT(error_of("model: chollet\ndata: {image_size: 96, resize_short: 72}\n"),
              HasSubstr("2:38: data.resize_short: expected 0 or at least data.image_size 96"));
  // --imgsz 48 of a recipe: the crop shows as much of an image.
  const auto short_side = [](const std::vector<std::string>& overrides) {
    return read_config_text("model: chollet\ndata: {image_size: 96, resize_short: 108}\n", "t",
                            overrides)
        .data.resize_short;
  };
  EXPECT_EQ(short_side({}), 108);
  EXPECT_EQ(short_side({"data.image_size=48"}), 54);
  EXPECT_EQ(short_side({"data.image_size=224"}), 252);
  EXPECT_EQ(short_side({"data.image_size=48", "data.resize_short=108"}), 108);
  EXPECT_EQ(read_config_text("model: chollet\n", "t", {"data.image_size=48"}).data.resize_short, 0);
  const auto mean = [](const std::vector<std::string>& overrides) {
    return read_config_text("model: chollet\ndata: {mean: [0.5, 0.4, 0.3], std: [0.2, 0.2, 0.2]}\n",
                            "t", overrides)
        .data.mean;
  };
  EXPECT_EQ(mean({"data.channels=3"}).size(), 3u);
  ASSERT_EQ(mean({"data.channels=1"}).size(), 1u);
  EXPECT_NEAR(mean({"data.channels=1"})[0], 0.4, 1e-12);
  EXPECT_EQ(mean({"data.channels=1", "data.mean=[0.7]"}), std::vector<double>{0.7});
  const std::string most = "model: chollet\ndata: {image_size: 16, resize_short: 256}\n";
  EXPECT_EQ(error_of(most, {"data.train_image_size=512"}), "no error");
  EXPECT_THAT(error_of(most, {"data.train_image_size=513"}),
              HasSubstr("data.train_image_size: expected at most 8192"));
  EXPECT_EQ(error_of("model: chollet\ndata: {image_size: 96, resize_short: 72, resize_mode: "
                     "squash}\n"),
            "no error");
}

TEST(Config, NumbersAndWordsAreWhatTheFieldSays) {
  const Config config = read_config_text(
      "name: no\nmodel: chollet\noptimizer: {lr: 1e-3, nesterov: yes, momentum: .9}\n"
      "train: {epochs: 1e1, drop_last: On}\ndata: {train: 007, workers: auto}\n",
      "t");
  EXPECT_EQ(config.name, "no");
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_EQ(config.train.epochs, 10);
  EXPECT_TRUE(config.train.drop_last);
  EXPECT_EQ(config.data.train, "007");
  EXPECT_FALSE(config.data.workers.value.has_value());
}

TEST(Config, FilesOfBeforeSayPictures) {
  const Config config =
      read_config_text("data: {train: x, kind: pictures}\nmodel: resnet18\n", "t");
  EXPECT_EQ(config.data.kind, DataKind::images);
  EXPECT_THAT(print_config(config), testing::HasSubstr("kind: images"));
}

TEST(Config, ABatchSizeIsThatOfAllRanksOrOfEach) {
  const std::string whole = "model: chollet\ntrain: {batch_size: 64}\n";
  const std::string each = "model: chollet\ntrain: {batch_size_per_gpu: 16}\n";
  Config config = read_config_text(each, "t");
  EXPECT_EQ(config.train.batch_size, 16) << "of one rank, until their number is known";
  EXPECT_EQ(read_config_text(print_config(config), "printed").train.batch_size_per_gpu, 16);
  config = read_config_text(whole, "t", {"train.batch_size_per_gpu=16"});
  EXPECT_EQ(config.train.batch_size_per_gpu, 16);
  config = read_config_text(each, "t", {"train.batch_size=64"});
  EXPECT_EQ(config.train.batch_size_per_gpu, 0);
  EXPECT_EQ(config.train.batch_size, 64);
  EXPECT_THAT(error_of("model: chollet\ntrain: {batch_size: 64, batch_size_per_gpu: 16}\n"),
              HasSubstr("train.batch_size_per_gpu: expected 0, as train.batch_size is given, got "
                        "'16'. Give one of the two"));
}

TEST(Config, OverridesWinAndAreNamedInErrors) {
  const std::string text = "model: chollet\ntrain: {epochs: 3}\n";
  const Config config = read_config_text(text, "t",
                                         {"train.epochs=4", "data.mean=[0.5]", "name=a b",
                                          "optimizer.groups=[{pattern: 'x*', lr_factor: 2}]"});
  EXPECT_EQ(config.train.epochs, 4);
  EXPECT_EQ(config.data.mean, std::vector<double>{0.5});
  EXPECT_EQ(config.name, "a b");
  ASSERT_EQ(config.optimizer.groups.size(), 1U);
  EXPECT_EQ(config.optimizer.groups[0].learning_rate_factor, 2);
  EXPECT_FALSE(config.optimizer.groups[0].weight_decay.has_value());
  EXPECT_EQ(error_of(text, {"train.epochs=0"}),
            "command line: train.epochs: expected an integer from 1 to 1000000, got '0'.");
  EXPECT_THAT(error_of(text, {"train.epoch=2"}), HasSubstr("Did you mean 'epochs'?"));
  EXPECT_THAT(error_of(text, {"train.epochs"}), HasSubstr("train.epochs"));
  EXPECT_THAT(error_of(text, {"seed.x=1"}), HasSubstr("seed"));
  EXPECT_THAT(error_of(text, {"=1"}), HasSubstr("="));
}

TEST(Config, PrintedConfigurationsReadBackTheSame) {
  int read = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(WHISKER_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string printed = print_config(read_config(entry.path().string(), {}));
    EXPECT_EQ(print_config(read_config_text(printed, "printed")), printed) << entry.path();
    ++read;
  }
  EXPECT_GE(read, 5);
  // Every key away from its default, and texts that YAML could take for something else.
  const std::vector<std::string> changes = {
      "name=\"no\"",
      "runs=\"a: b # c\"",
      "data.train=\"- x\"",
      "data.label_pattern='{label}.*'",
      "data.csv=\"1e3\"",
      "seed=9007199254740992",
      "data.workers=3",
      "freeze=['features.*', 'a: b']",
      "augment.horizontal_flip=true",
      "data.mean=[0.485, 0.456, 0.406]",
      "schedule.minimum=1e-20",
      "optimizer.groups=[{pattern: 'a*'}, {pattern: '*', lr_factor: 0, weight_decay: 0}]",
      "schedule.milestones=[1, 2.5]",
      "init.skip=[\"\\u00e9\"]",
      "device=reference",
      "runtime.winograd=false",
      "runtime.graph=false"};
  const Config config =
      read_config_text("model: {layers: [flatten, {dense: {units: classes}}]}\n", "t", changes);
  const std::string printed = print_config(config);
  const Config again = read_config_text(printed, "printed");
  EXPECT_EQ(print_config(again), printed);
  EXPECT_EQ(again.name, "no");
  EXPECT_EQ(again.runs, "a: b # c");
  EXPECT_EQ(again.data.csv, "1e3");
  EXPECT_EQ(again.seed, 9007199254740992);
  EXPECT_EQ(again.schedule.minimum, 1e-20);
  EXPECT_EQ(again.init.skip, std::vector<std::string>{"\u00e9"});
  EXPECT_EQ(again.optimizer.groups.size(), 2U);
  EXPECT_EQ(again.optimizer.groups[1].weight_decay, 0.0);
  EXPECT_TRUE(again.model == config.model);
}

TEST(Config, ARestartLeavesEpochs) {
  const std::string text = "model: chollet\nschedule: {restart: 10}\n";
  EXPECT_EQ(read_config_text(text, "t", {"train.epochs=11"}).schedule.restart, 10);
  EXPECT_EQ(error_of(text),
            "test.yaml:2:21: schedule.restart: expected fewer epochs than train.epochs, which "
            "is 10, got '10'. Nothing remains for the schedule: raise train.epochs.");
}

TEST(Config, ResumeMayChangeLittle) {
  const Config before = read_config_text("model: chollet\n", "t");
  const std::string kept = config_kept_on_resume(before);
  const auto change = [&](const std::string& override) {
    return changed_on_resume(kept, read_config_text("model: chollet\n", "t", {override}));
  };
  for (const char* free :
       {"train.epochs=99", "train.time_budget_minutes=1", "data.workers=3", "device=cpu",
        "train.log_every=7", "checkpoint.keep=3", "runtime.graph=false", "schedule.restart=2"}) {
    EXPECT_EQ(change(free), "") << free;
    EXPECT_TRUE(may_change_on_resume(std::string(free).substr(0, std::string(free).find('='))));
  }
  for (const char* place : {"name", "runs"}) EXPECT_FALSE(may_change_on_resume(place));
  EXPECT_EQ(change("optimizer.lr=0.5"), "optimizer.lr was 0.001, now 0.5");
  EXPECT_EQ(change("data.mean=[1, 2, 3]"), "data.mean was [0], now [1, 2, 3]");
  EXPECT_EQ(change("model=resnet18"), "model was chollet, now resnet18");
  for (const char* fixed :
       {"seed=2", "data.image_size=64", "augment.zoom=0.1", "train.batch_size=1",
        "train.accumulate=2", "ema.decay=0.9", "freeze=[a]", "data.sampling=balanced",
        "loss.label_smoothing=0.1", "schedule.kind=cosine", "train.metric=loss"}) {
    EXPECT_NE(change(fixed), "") << fixed;
    EXPECT_FALSE(may_change_on_resume(std::string(fixed).substr(0, std::string(fixed).find('='))));
  }
}

}  // namespace
}  // namespace whisker
