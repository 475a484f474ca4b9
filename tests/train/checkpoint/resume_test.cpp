// A stopped and resumed run is the uninterrupted one bit for bit; the same seed
// gives the same bits on any number of workers; what would make another run of it is refused.
#include "core/io/file.h"
#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_training.h"

#include <chrono>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// Everything a run leaves that does not depend on a clock.
struct Outcome {
  std::string hash;
  std::string metrics;
  std::string best;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const TestRun& run) {
  Hash64 best;
  const SafetensorsFile file = SafetensorsFile::open(run.folder.best());
  for (const SafetensorsTensor& tensor : file.tensors()) {
    best.update(tensor.name);
    best.update(tensor.bytes);
  }
  return {hash_of(run.experiment), metrics_without_times(run.folder.path()), best.hex()};
}

Outcome uninterrupted(const Config& config) {
  TestRun run(config);
  run.train();
  return outcome_of(run);
}

TEST(CheckpointResume, EqualsTheUninterruptedRunFromEveryStop) {
  const StripeFolder data;
  int compared = 0;
  const std::pair<std::vector<std::string>, std::vector<int64_t>> cases[] = {
      {{"train.epochs=8"}, {1, 5, 17, 39}},                                  // 5 steps an epoch
      {joined(lively_overrides(), {"train.epochs=14"}), {1, 2, 3, 22, 41}},  // 3 steps an epoch
      {{"train.epochs=8", "optimizer.kind=sgd", "optimizer.momentum=0.9", "schedule.kind=plateau",
        "schedule.patience=0", "train.validate_every=2", "checkpoint.every=4", "train.log_every=4"},
       {7, 30}},
      // All layers are trained from step 15 on.
      {{"train.epochs=6", "freeze=[backbone]", "unfreeze_at=3", "features=cached",
        "optimizer.kind=adamw", "optimizer.layer_decay=0.5", "schedule.kind=one_cycle",
        "schedule.restart=3", "schedule.restart_factor=0.5"},
       {3, 15, 16, 22}},
      {{"train.epochs=3", "augment.rand_augment.num_ops=2", "augment.horizontal_flip=true"},
       {2, 8}},
      {{"train.epochs=3", "augment.trivial_augment=true", "augment.erase=0.5"}, {7}},
  };
  for (const auto& [overrides, stops] : cases) {
    const Outcome expected = uninterrupted(data.config(overrides));
    for (const int64_t k : stops) {
      const int64_t workers = std::array{0, 1, 2, 4}[static_cast<size_t>(compared % 4)];
      Config config = data.config(overrides);
      config.data.workers.value = workers;
      const fs::path folder = stopped_at(config, k);
      config.data.workers.value = 4 - workers;
      TestRun resumed(config, folder);
      EXPECT_EQ(resumed.train().reason, StopReason::finished);
      EXPECT_TRUE(outcome_of(resumed) == expected) << overrides.back() << ", stopped at " << k;
      ++compared;
    }
  }
  fmt::print("resumed runs equal to the uninterrupted one: {} of 18\n", compared);
}

TEST(CheckpointResume, ControlLosingTheMomentsShows) {
  const StripeFolder data;
  const Config config = data.config();
  const Outcome expected = uninterrupted(config);
  TestRun resumed(config, stopped_at(config, 7));
  resumed.experiment.optimizer->moments()[0].flat.fill_(0);
  resumed.train();
  EXPECT_FALSE(outcome_of(resumed) == expected);
}

TEST(CheckpointResume, ManyStopsInOneRun) {
  const StripeFolder data;
  const Config config = data.config(lively_overrides());
  const Outcome expected = uninterrupted(config);
  fs::path folder = stopped_at(config, 1);
  for (int64_t k = 2; k < 9; ++k) {
    TestRun part(config, folder);
    part.recorder.each_step = [&](const StepEvent& event) {
      if (event.step >= k) part.stop = 2;
    };
    part.train();
  }
  TestRun rest(config, folder);
  rest.train();
  EXPECT_TRUE(outcome_of(rest) == expected);
}

TEST(CheckpointResume, LongerRunGoesOnAndSaysThatTheScheduleMoved) {
  const StripeFolder data;
  Config config = data.config({"schedule.kind=cosine", "train.epochs=2"});
  fs::path folder;
  {
    TestRun run(config);
    run.train();
    folder = run.folder.path();
  }
  config.train.epochs = 4;
  TestRun longer(config, folder);
  ASSERT_EQ(longer.recorder.messages.size(), 2U);
  EXPECT_EQ(longer.recorder.messages[0], "continues at epoch 3, step 11");
  EXPECT_EQ(
      longer.recorder.messages[1],
      "train.epochs was 2 and is 4 now: the learning rate was 0.000245 in the last step; now "
      "it begins at 0.005, is at most 0.005 and ends at 6.16e-05. To start the schedule again "
      "over the 2 epochs that remain, give schedule.restart=2: it begins at 0.01, is at most "
      "0.01 and ends at 0.000245.");
  const TrainResult result = longer.train();
  EXPECT_EQ(result.epochs, 4);
  EXPECT_EQ(result.steps, 20);
  EXPECT_NEAR(longer.recorder.steps[0].learning_rate, 0.005, 1e-12);
}

// A finished run that goes on with schedule.restart is the run that was planned so, also when it is
// stopped again after that.
TEST(CheckpointResume, ScheduleStartsAgain) {
  for (const char* kind : {"cosine", "one_cycle", "plateau"}) {
    const StripeFolder data;
    Config config = data.config(
        {fmt::format("schedule.kind={}", kind), "schedule.patience=0", "train.epochs=2"});
    fs::path folder;
    double first_rate = 0;
    {
      TestRun run(config);
      run.train();
      folder = run.folder.path();
      first_rate = run.recorder.steps[0].learning_rate;
    }
    config.train.epochs = 5;
    config.schedule.restart = 2;
    const Outcome expected = uninterrupted(config);
    {
      TestRun again(config, folder);
      again.recorder.each_step = [&](const StepEvent& event) { again.stop = event.step == 17; };
      again.train();
      EXPECT_EQ(again.recorder.steps[0].learning_rate, first_rate) << kind;
      ASSERT_EQ(again.recorder.messages.size(), kind == std::string("plateau") ? 1 : 2);
      if (again.recorder.messages.size() > 1) {
        EXPECT_THAT(again.recorder.messages[1],
                    HasSubstr("train.epochs was 2 and is 5 now, schedule.restart was 0 and is 2 "
                              "now: the learning rate was "));
        EXPECT_THAT(again.recorder.messages[1], testing::Not(HasSubstr("To start")));
      }
    }
    TestRun rest(config, folder);
    EXPECT_THAT(rest.recorder.messages, testing::ElementsAre("continues at epoch 4, step 18"));
    rest.train();
    EXPECT_TRUE(outcome_of(rest) == expected) << kind;
  }
}

TEST(CheckpointResume, FinishedRunHasNothingToDo) {
  const StripeFolder data;
  const Config config = data.config();
  fs::path folder;
  std::string before;
  {
    TestRun run(config);
    run.train();
    folder = run.folder.path();
    before = hash_of(run.experiment);
  }
  TestRun again(config, folder);
  EXPECT_THAT(again.recorder.messages,
              testing::ElementsAre("nothing to do: 3 of 3 epochs are done. Ask for more with "
                                   "train.epochs=N"));
  const TrainResult result = again.train();
  EXPECT_EQ(result.reason, StopReason::finished);
  EXPECT_EQ(result.steps, 15);
  EXPECT_EQ(hash_of(again.experiment), before);
}

// Ten runs, on 0 to 4 workers, in two processes' worth of fresh objects.
TEST(LoaderTraining, SameSeedSameBitsOnAnyNumberOfWorkers) {
  const StripeFolder data;
  const std::vector<std::string> lively = joined(lively_overrides(), {"train.epochs=2"});
  const Outcome expected = uninterrupted(data.config(lively));
  int same = 0;
  for (int run = 0; run < 9; ++run) {
    Config config = data.config(lively);
    config.data.workers.value = std::array{0, 1, 2, 4, 8}[static_cast<size_t>(run % 5)];
    config.data.prefetch = 1 + run;
    same += uninterrupted(config) == expected;
  }
  EXPECT_EQ(same, 9);
  fmt::print("runs with the same bits: {} of 10\n", same + 1);
  EXPECT_NE(uninterrupted(data.config(joined(lively, {"seed=2"}))).hash, expected.hash);  // control
}

/// Changes one byte in the middle of a file. Its time is set, as clocks of file systems are coarse.
void edit_byte(const fs::path& path) {
  std::string content = read_file(path, 1 << 20, ErrorKind::data);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  const auto before = fs::last_write_time(path);
  std::ofstream(path, std::ios::binary) << content;
  fs::last_write_time(path, before + std::chrono::seconds(1));
}

/// One change between stop and resume, and what the refusal must say.
struct Edit {
  std::string name;
  std::function<void(const StripeFolder&, Config&)> apply;
  std::string says;
};

TEST(CheckpointResume, ChangedDataAndSettingsAreRefused) {
  const auto data_changed = "the training or validation data changed";
  const std::vector<Edit> edits = {
      {"an image more",
       [](const StripeFolder& d, Config&) { write_stripes(d / "train", 1, 1, 500); }, data_changed},
      {"an image less", [](const StripeFolder& d, Config&) { fs::remove(d / "train/c0/000.jpg"); },
       data_changed},
      {"another size",
       [](const StripeFolder& d, Config&) {
         std::ofstream(d / "train/c0/000.jpg", std::ios::app) << "x";
       },
       data_changed},
      {"a byte", [](const StripeFolder& d, Config&) { edit_byte(d / "train/c1/013.png"); },
       "train/c1/013.png'"},
      {"a byte of an image that was not read yet",
       [](const StripeFolder& d, Config&) { edit_byte(d / "val/c0/1000.jpg"); },
       "val/c0/1000.jpg'"},
      {"another name",
       [](const StripeFolder& d, Config&) {
         fs::rename(d / "train/c0/000.jpg", d / "train/c0/zzz.jpg");
       },
       data_changed},
      {"another label",
       [](const StripeFolder& d, Config&) {
         fs::rename(d / "train/c0/000.jpg", d / "train/c1/a.jpg");
       },
       data_changed},
      {"validation changed",
       [](const StripeFolder& d, Config&) { fs::remove(d / "val/c0/1000.jpg"); }, data_changed},
      {"a class renamed",
       [](const StripeFolder& d, Config&) {
         fs::rename(d / "train/c1", d / "train/d1");
         fs::rename(d / "val/c1", d / "val/d1");
       },
       data_changed},
      {"mean",
       [](const StripeFolder&, Config& c) {
         c.data.mean = {0.5, 0.5, 0.5};
       },
       "preprocessing"},
      {"interpolation",
       [](const StripeFolder&, Config& c) { c.data.interpolation = Interpolation::bicubic; },
       "preprocessing"},
      {"input size", [](const StripeFolder&, Config& c) { c.data.image_size = 20; },
       "preprocessing"},
      {"learning rate", [](const StripeFolder&, Config& c) { c.optimizer.learning_rate = 0.5; },
       "optimizer.lr was 0.01, now 0.5"},
      {"seed", [](const StripeFolder&, Config& c) { c.seed = 9; }, "seed was 1, now 9"},
      {"augmentation", [](const StripeFolder&, Config& c) { c.augment.rotation = 10; },
       "augment.rotation was 0, now 10"},
      {"ema", [](const StripeFolder&, Config& c) { c.ema.decay = 0.5; },
       "ema.decay was 0, now 0.5"},
      {"who decodes", [](const StripeFolder&, Config& c) { c.data.gpu_decode.value = 30; },
       "data.gpu_decode was auto, now 30"},
      {"batch size", [](const StripeFolder&, Config& c) { c.train.batch_size = 4; },
       "train.batch_size was 8, now 4"},
  };
  for (const Edit& edit : edits) {
    const StripeFolder data;
    Config config = data.config();
    const fs::path folder = stopped_at(config, 7);  // after the first validation
    const std::string metrics = read_file(folder / "metrics.jsonl", 1 << 20, ErrorKind::data);
    edit.apply(data, config);
    const std::string error =
        message_of(ErrorKind::checkpoint, [&] { const TestRun run(config, folder); });
    EXPECT_THAT(error, HasSubstr(edit.says)) << edit.name;
    EXPECT_THAT(error,
                HasSubstr("start a new run with --init " + (folder / "best.safetensors").string()))
        << edit.name;
    EXPECT_EQ(read_file(folder / "metrics.jsonl", 1 << 20, ErrorKind::data), metrics) << edit.name;
  }
  fmt::print("edits refused: {}\n", edits.size());
}

/// Who decodes after a resume of a run that had chosen `share`; below 0: had chosen nothing.
double jpeg_share_resumed(const Config& config, double share) {
  fs::path folder;
  {
    TestRun run(config);
    if (share >= 0) run.experiment.train->set_jpeg_share(share);
    run.recorder.each_step = [&](const StepEvent& event) {
      if (event.step >= 3) run.stop = 15;
    };
    run.train();
    folder = run.folder.path();
  }
  return TestRun(config, folder).experiment.train->jpeg_share();
}

// What data.gpu_decode: auto chose stays the run's. Where nobody chose, as on a CPU, a resume
// elsewhere still may; and a percentage is the configuration's.
TEST(CheckpointResume, KeepsWhoDecodes) {
  const StripeFolder data;
  EXPECT_EQ(jpeg_share_resumed(data.config({"name=chosen"}), 0.75), 0.75);
  EXPECT_EQ(jpeg_share_resumed(data.config({"name=nothing"}), -1), -1);
  EXPECT_EQ(jpeg_share_resumed(data.config({"name=told", "data.gpu_decode=30"}), 0.75), -1);
  const TestRun fresh(data.config({"name=fresh"}));
  EXPECT_EQ(fresh.experiment.train->jpeg_share(), -1);
}

TEST(CheckpointResume, InitialWeightsMayBeGone) {
  const StripeFolder data;
  {
    TestRun first(data.config({"train.epochs=1", "name=first"}));
    first.train();
  }
  const fs::path weights = data / "runs/first/best.safetensors";
  const Config config = data.config({"init.from=" + weights.string()});
  const Outcome expected = uninterrupted(config);
  const fs::path folder = stopped_at(config, 4);
  fs::remove(weights);
  TestRun resumed(config, folder);
  resumed.train();
  EXPECT_TRUE(outcome_of(resumed) == expected);
}

}  // namespace
}  // namespace whisker::test
