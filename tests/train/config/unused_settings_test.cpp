// Keys that nothing reads are named with what they are for; keys in use and defaults are not.
#include "train/config/unused_settings.h"

#include "layers/builder/presets.h"
#include "tests/support/temporary_folder.h"
#include "train/config/preprocess_config.h"
#include "train/config/unlikely_settings.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> unused_of(const std::vector<std::string>& overrides) {
  return unused_settings(read_config_text("model: chollet\n", "test.yaml", overrides));
}

TEST(UnusedSettings, AreNamedWithWhatTheyAreFor) {
  EXPECT_THAT(unused_of({"optimizer.kind=adam", "optimizer.momentum=0.9"}),
              ElementsAre("optimizer.momentum has no effect: it is for optimizer.kind sgd or "
                          "rmsprop"));
  EXPECT_THAT(unused_of({"optimizer.kind=rmsprop", "optimizer.momentum=0.9",
                         "optimizer.nesterov=true", "optimizer.beta1=0.8", "optimizer.beta2=0.9"}),
              ElementsAre("optimizer.nesterov has no effect: it is for optimizer.kind sgd",
                          "optimizer.beta1, optimizer.beta2 have no effect: they are for "
                          "optimizer.kind adam or adamw"));
  EXPECT_THAT(
      unused_of({"schedule.kind=exponential", "schedule.gamma=0.5", "schedule.peak_at=0.5"}),
      ElementsAre("schedule.peak_at has no effect: it is for schedule.kind one_cycle"));
  EXPECT_THAT(unused_of({"data.kind=rows", "augment.rotation=10", "data.text.steps=9"}),
              ElementsAre("augment.rotation has no effect: it is for data.kind images",
                          "data.text.steps has no effect: it is for data.kind language"));
  EXPECT_THAT(unused_of({"data.kind=text", "data.csv=a.csv", "data.label_pattern={label}_*"}),
              ElementsAre("data.label_pattern, data.csv have no effect: they are for data.kind "
                          "images"));
  EXPECT_THAT(unused_of({"data.header=true", "init.skip=[fc]"}),
              ElementsAre("init.skip has no effect: it is for init.from",
                          "data.header has no effect: it is for tables, of data.kind text, rows or "
                          "series"));
  EXPECT_THAT(unused_of({"augment.crop_scale=[0.5, 1]"}),
              ElementsAre("augment.crop_scale has no effect: it is for "
                          "augment.random_resized_crop true"));
}

TEST(UnusedSettings, AreThoseOfOtherKindsOfData) {
  EXPECT_THAT(
      unused_of({"data.kind=series", "data.image_size=64", "data.mean=[0.5]", "data.cache=memory",
                 "data.workers=2", "data.buckets=3"}),
      ElementsAre("data.image_size, data.mean, data.cache, data.workers have no effect: they "
                  "are for data.kind images",
                  "data.buckets has no effect: it is for data.kind text or rows"));
  EXPECT_THAT(unused_of({"data.kind=language", "data.sampling=balanced", "train.drop_last=true",
                         "data.text.max_length=9", "data.text.keep=last"}),
              ElementsAre("data.sampling, train.drop_last have no effect: they are for data.kind "
                          "images, text, rows or series",
                          "data.text.max_length, data.text.keep have no effect: they are for "
                          "data.kind text"));
  const TemporaryFolder folder;
  EXPECT_THAT(unused_of({"data.kind=text", "data.train=" + folder.path().string(),
                         "data.text.text_column=3"}),
              ElementsAre("data.text.text_column has no effect: it is for tables, not a folder of "
                          "texts"));
}

TEST(UnusedSettings, OfImagesDependOnOtherSettings) {
  EXPECT_THAT(unused_of({"data.resize_mode=squash", "data.resize_short=200"}),
              ElementsAre("data.resize_short has no effect: it is for data.resize_mode crop or "
                          "squash_crop"));
  EXPECT_THAT(
      unused_of({"data.cache=disk", "data.cache_limit_mib=9"}),
      ElementsAre("data.cache_limit_mib has no effect: it is for data.cache memory or device, "
                  "or features cached"));
  EXPECT_THAT(unused_of({"data.cache_file=f"}),
              ElementsAre("data.cache_file has no effect: it is for data.cache disk"));
  EXPECT_THAT(unused_of({"augment.fill_mode=constant", "augment.fill_value=9"}),
              ElementsAre("augment.fill_mode, augment.fill_value have no effect: they are for "
                          "augment.rotation, shear, zoom or shifts above 0"));
  EXPECT_THAT(
      unused_of({"augment.zoom=0.1", "augment.fill_value=9"}),
      ElementsAre("augment.fill_value has no effect: it is for augment.fill_mode constant"));
  EXPECT_THAT(unused_of({"data.channels=1", "augment.hue=0.1", "augment.contrast=0.1"}),
              ElementsAre("augment.hue has no effect: it is for data.channels 3"));
  EXPECT_THAT(unused_of({"train.overfit_batches=2", "augment.hue=0.1"}),
              ElementsAre("augment.hue has no effect: it is for train.overfit_batches 0"));
  const std::vector<std::string> cached = {"features=cached", "freeze=[backbone]",
                                           "augment.mixup=1"};
  EXPECT_THAT(unused_of(cached),
              ElementsAre("augment.mixup has no effect: it is for features computed, or "
                          "unfreeze_at"));
  EXPECT_THAT(unused_settings(read_config_text("model: chollet\n", "test.yaml", cached), 2),
              IsEmpty());
}

TEST(UnusedSettings, BeyondTheRunsEndAre) {
  EXPECT_THAT(unused_of({"schedule.kind=step", "schedule.step_size=30"}),
              ElementsAre("schedule.kind, schedule.step_size have no effect: they are for "
                          "schedule.step_size below the run's epochs"));
  EXPECT_THAT(unused_of({"schedule.kind=multi_step", "schedule.milestones=[30, 60]"}),
              ElementsAre("schedule.kind, schedule.milestones have no effect: they are for "
                          "schedule.milestones below the run's epochs"));
  EXPECT_THAT(
      unused_of({"schedule.kind=multi_step", "schedule.milestones=[5, 9]", "schedule.warmup=1"}),
      ElementsAre("schedule.milestones has no effect beyond the run's end: it is for epochs "
                  "that the run reaches"));
  EXPECT_THAT(
      unused_of({"schedule.warmup=11"}),
      ElementsAre("schedule.warmup has no effect beyond the run's end: it is for epochs that "
                  "the run reaches"));
  EXPECT_THAT(unused_of({"schedule.kind=cosine", "schedule.warmup=10"}),
              ElementsAre("schedule.kind has no effect: it is for schedule.warmup that ends before "
                          "the run does"));
  EXPECT_THAT(unused_of({"schedule.kind=plateau", "train.validate_every=2", "schedule.patience=4"}),
              ElementsAre("schedule.kind, schedule.patience have no effect: they are for "
                          "schedule.patience below the number of validations"));
  EXPECT_THAT(unused_of({"freeze=[backbone]", "unfreeze_at=10", "unfreeze_last=0.5"}),
              ElementsAre("unfreeze_at, unfreeze_last have no effect: they are for train.epochs "
                          "above unfreeze_at"));
  EXPECT_THAT(unused_of({"freeze=[backbone]", "unfreeze_at=10", "features=cached",
                         "schedule.restart_factor=0.3", "augment.mixup=1"}),
              ElementsAre("unfreeze_at has no effect: it is for train.epochs above unfreeze_at"))
      << "one cause, one line";
  EXPECT_THAT(unused_of({"schedule.kind=step", "schedule.step_size=9"}), IsEmpty());
  EXPECT_THAT(unused_of({"schedule.kind=multi_step", "schedule.milestones=[9]"}), IsEmpty());
  EXPECT_THAT(unused_of({"schedule.kind=plateau", "schedule.patience=8"}), IsEmpty());
}

TEST(UnusedSettings, OfTheUpdateDependOnOtherSettings) {
  EXPECT_THAT(unused_of({"optimizer.decay_all=false"}),
              ElementsAre("optimizer.decay_all has no effect: it is for a weight_decay above 0"));
  EXPECT_THAT(unused_of({"optimizer.decay_all=false",
                         "optimizer.groups=[{pattern: a, weight_decay: 0.1}]"}),
              IsEmpty());
  EXPECT_THAT(unused_of({"schedule.restart=5"}),
              ElementsAre("schedule.restart has no effect: it is for another schedule.kind than "
                          "constant, schedule.warmup or schedule.restart_factor"));
  EXPECT_THAT(unused_of({"train.sync_batch_norm=true"}),
              ElementsAre("train.sync_batch_norm has no effect: it is for several ranks"));
}

TEST(UnusedSettings, OfShippedConfigurationsAreNone) {
  for (const auto& file : std::filesystem::directory_iterator(WHISKER_SOURCE_DIR "/configs")) {
    if (!file.is_regular_file()) continue;
    Config config = read_config(file.path().string(), {});
    config.schedule.restart = config.unfreeze_at;  // as resolve_config() sets it
    EXPECT_THAT(unused_settings(config), IsEmpty()) << file.path();
    EXPECT_THAT(unlikely_settings(config), IsEmpty()) << file.path();
  }
}

TEST(UnlikelySettings, AreUnitsOfMeanAndStdOtherThanTheScales) {
  const auto unlikely = [](const std::vector<std::string>& overrides) {
    return unlikely_settings(read_config_text("model: chollet\n", "test.yaml", overrides)).size();
  };
  EXPECT_THAT(
      unlikely_settings(
          read_config_text("model: chollet\n", "test.yaml", {"data.mean=[124]", "data.std=[58]"})),
      ElementsAre("data.mean [124, 124, 124] and data.std [58, 58, 58] do not fit pixels of "
                  "0 to 1, which are data.scale 0.003922 times 0 to 255: data.scale=1 is "
                  "for mean and std of 0 to 255, data.scale=0.00392157 for those of 0 to "
                  "1"));
  EXPECT_EQ(unlikely({"data.scale=1", "data.mean=[0.485, 0.456, 0.406]"}), 1u);
  EXPECT_EQ(unlikely({"data.scale=1", "data.mean=[0.5]", "data.std=[0.5]"}), 1u);
  EXPECT_EQ(unlikely({"data.mean=[-0.5]"}), 1u);
  for (const char* scale : {"data.scale=1", "data.scale=0.002", "data.scale=0.00784"}) {
    EXPECT_EQ(unlikely({scale}), 0u) << scale;
  }
  EXPECT_EQ(unlikely({"data.scale=1", "data.mean=[123, 116, 103]"}), 0u);
  EXPECT_EQ(unlikely({"data.scale=0.0078431372549019607", "data.mean=[1]"}), 0u);
  EXPECT_EQ(unlikely({"data.mean=[0.004]", "data.std=[0.04]"}), 0u);  // of a night sky
  for (const Preset& preset : presets()) {
    const auto found = preset_preprocess(preset.name);
    EXPECT_EQ(found ? units_note(found->normalisation, 3) : "", "") << preset.name;
  }
}

TEST(UnlikelySettings, AreTwoCorrectionsOfUnequalClasses) {
  EXPECT_THAT(
      unlikely_settings(
          read_config_text("model: chollet\n", "test.yaml",
                           {"data.sampling=balanced", "loss.class_weights=balanced"})),
      ElementsAre(testing::HasSubstr(
          "data.sampling=balanced and loss.class_weights=balanced both even out the classes")));
}

TEST(UnusedSettings, SettingsInUseAreNot) {
  EXPECT_THAT(unused_of({}), IsEmpty());
  EXPECT_THAT(unused_of({"optimizer.kind=sgd", "optimizer.momentum=0.9", "optimizer.nesterov=true",
                         "schedule.kind=plateau", "schedule.patience=3", "schedule.gamma=0.5",
                         "schedule.warmup=1", "schedule.warmup_start=0.1"}),
              IsEmpty());
  EXPECT_THAT(unused_of({"optimizer.kind=adam", "optimizer.momentum=0"}), IsEmpty());
}

// A run's config.yaml has every key.
TEST(UnusedSettings, APrintedConfigurationIsNotMoreThanItsSettings) {
  const Config config = read_config_text("model: chollet\n", "test.yaml", {});
  EXPECT_THAT(unused_settings(read_config_text(print_config(config), "printed", {})), IsEmpty());
}

}  // namespace
}  // namespace whisker
