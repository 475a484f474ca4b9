// The configurations for sequences on real data, cut short; WHISKER_LONG=1 trains them whole and
// holds them to the results that they promise. Skipped where the data are missing.
#include "data/generate_waves.h"
#include "support/test_data.h"
#include "support/tiny_training.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

struct Case {
  const char* config;
  const char* data;    // below sequences/
  const char* figure;  // of the best weights
  double short_run;    // what it has to reach in `epochs`
  double whole_run;
  int epochs;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.config;
}

constexpr Case cases[] = {
    {"names_lstm", "names", "accuracy", 0.70, 0.82, 1},
    {"airline_gru", "airline-passengers.csv", "mae", 25, 15, 30},
    {"ecg_rnn", "ECG5000_TRAIN.txt", "accuracy", 0.80, 0.88, 4},
    {"sms_gru", "SMSSpamCollection.tsv", "f1", 0.80, 0.92, 2},
    {"imdb_lstm", "imdb_reviews.tsv", "accuracy", 0, 0.80, 0},
    {"shakespeare_lstm", "tinyshakespeare.txt", "bits_per_character", 0, 2.35, 0},
};

class RealSequences : public testing::TestWithParam<Case> {};

TEST_P(RealSequences, ReachWhatTheirConfigurationPromises) {
  const Case& c = GetParam();
  const bool whole = std::getenv("WHISKER_LONG") != nullptr;
  const std::filesystem::path data = test_data_dir() / "sequences" / c.data;
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is missing";
  if (!whole && c.epochs == 0) GTEST_SKIP() << "takes minutes: WHISKER_LONG=1";
  const TemporaryFolder folder;
  std::vector<std::string> overrides = {"data.train=" + data.string(),
                                        "runs=" + (folder / "runs").string()};
  if (!whole) overrides.push_back(fmt::format("train.epochs={}", c.epochs));
  TestRun run(read_config(fmt::format(WHISKER_SOURCE_DIR "/configs/{}.yaml", c.config), overrides));
  const TrainResult result = run.train();
  // The best of the epochs, and better where lower is.
  const Figure last = result.validation->figure(c.figure);
  double best = last.value;
  for (const EpochEvent& epoch : run.recorder.epochs) {
    for (const Figure& one : epoch.val_figures) {
      if (one.name != c.figure) continue;
      best = last.higher_is_better ? std::max(best, one.value) : std::min(best, one.value);
    }
  }
  const double wanted = whole ? c.whole_run : c.short_run;
  if (last.higher_is_better) {
    EXPECT_GE(best, wanted) << c.figure;
  } else {
    EXPECT_LE(best, wanted) << c.figure;
  }
}

// The two networks of the Keras tutorials, on sequences of any length with ten features.
TEST(KerasTutorials, LearnWhichWayAWaveTravels) {
  const TemporaryFolder folder;
  generate_waves({.folder = folder / "waves"});
  for (const auto& [config, wanted] : {std::pair{"keras_simple_rnn", 0.85}, {"keras_lstm", 0.94}}) {
    TestRun run(read_config(fmt::format(WHISKER_SOURCE_DIR "/configs/{}.yaml", config),
                            {"data.train=" + (folder / "waves/train.csv").string(),
                             "data.val=" + (folder / "waves/val.csv").string(),
                             "runs=" + (folder / "runs").string(), "device=cpu"}));
    const TrainResult result = run.train();
    EXPECT_GE(result.validation->figure("accuracy").value, wanted) << config;
    EXPECT_EQ(run.experiment.network->model().input[2], 10) << config;
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, RealSequences, testing::ValuesIn(cases),
                         [](const auto& one) { return std::string(one.param.config); });

}  // namespace
}  // namespace whisker::test
