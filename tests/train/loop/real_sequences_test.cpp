// The configurations for sequences on real data, cut short; WHISKER_LONG=1 trains them whole and
// holds the mean of their seeds to the results that they promise. Skipped where the data are
// missing.
#include "data/synthetic/generate.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_training.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

struct Case {
  const char* config;
  const char* data;    // below sequences/
  const char* figure;  // after the last epoch: the validation set has chosen nothing by then
  double short_run;    // what it has to reach in `epochs`
  double whole_run;
  int epochs;  // of a short run; 0: none is worth it
  int seeds;   // of a whole run: splits, but of series and plain text, and initial weights
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.config;
}

constexpr Case sequence_cases[] = {
    {"names_lstm", "names", "accuracy", 0.70, 0.82, 1, 3},
    {"airline_gru", "airline-passengers.csv", "mae", 25, 16, 30, 3},
    {"ecg_rnn", "ECG5000_TRAIN.txt", "accuracy", 0.80, 0.88, 4, 3},
    {"sms_gru", "SMSSpamCollection.tsv", "f1_class", 0.80, 0.92, 2, 3},
    {"imdb_lstm", "imdb_reviews.tsv", "accuracy", 0, 0.80, 0, 3},
    {"shakespeare_lstm", "tinyshakespeare.txt", "bits_per_character", 0, 2.27, 0, 1},
};

class RealSequences : public testing::TestWithParam<Case> {};

TEST_P(RealSequences, ReachWhatTheirConfigurationPromises) {
  const Case& c = GetParam();
  const bool whole = std::getenv("WHISKER_LONG") != nullptr;
  const std::filesystem::path data = test_data_dir() / "sequences" / c.data;
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is missing";
  if (!whole && c.epochs == 0) GTEST_SKIP() << "takes minutes: WHISKER_LONG=1";
  const int seeds = whole ? c.seeds : 1;
  double sum = 0;
  bool higher_is_better = true;
  for (int seed = 1; seed <= seeds; ++seed) {
    const TemporaryFolder folder;
    std::vector<std::string> overrides = {"data.train=" + data.string(),
                                          "runs=" + (folder / "runs").string(),
                                          fmt::format("seed={}", seed)};
    if (!whole) overrides.push_back(fmt::format("train.epochs={}", c.epochs));
    TestRun run(
        read_config(fmt::format(WHISKER_SOURCE_DIR "/configs/{}.yaml", c.config), overrides));
    const Figure last = run.train().validation->figure(c.figure);
    fmt::print("{} seed {}: {} {:.4f}\n", c.config, seed, c.figure, last.value);
    sum += last.value;
    higher_is_better = last.higher_is_better;
  }
  const double wanted = whole ? c.whole_run : c.short_run;
  if (higher_is_better) {
    EXPECT_GE(sum / seeds, wanted) << c.figure;
  } else {
    EXPECT_LE(sum / seeds, wanted) << c.figure;
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

INSTANTIATE_TEST_SUITE_P(Configs, RealSequences, testing::ValuesIn(sequence_cases),
                         [](const auto& one) { return std::string(one.param.config); });

}  // namespace
}  // namespace whisker::test
