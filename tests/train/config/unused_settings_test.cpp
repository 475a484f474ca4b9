// Keys that nothing reads are named with what they are for; keys in use and defaults are not.
#include "train/config/unused_settings.h"

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
  EXPECT_THAT(unused_of({"schedule.kind=step", "schedule.gamma=0.5", "schedule.peak_at=0.5"}),
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
