// The loop: it learns, stops when it should, keeps the best, and saves when told.
#include "core/io/file.h"
#include "core/io/json.h"
#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_training.h"
#include "train/loop/repeat.h"
#include "train/metrics/evaluate.h"
#include "train/planning/dry_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<JsonValue> metrics_of(const fs::path& run) {
  std::vector<JsonValue> lines;
  std::istringstream text(read_file(run / "metrics.jsonl", 1 << 24, ErrorKind::data));
  for (std::string line; std::getline(text, line);) lines.push_back(JsonValue::parse(line, {}));
  return lines;
}

int64_t count_kind(const std::vector<JsonValue>& lines, std::string_view kind) {
  return std::ranges::count_if(
      lines, [&](const JsonValue& l) { return l.at("kind").as_string() == kind; });
}

TEST(Trainer, LearnsAFewImagesByHeart) {
  const StripeFolder data;
  for (const char* precision : {"precision=f32", "precision=bf16"}) {
    for (const char* head : {"model.head=[{dense: {units: classes}}]",
                             "model.head=[{dense: {units: 1, activation: sigmoid}}]"}) {
      TestRun run(data.config({head, precision, "train.overfit_batches=1", "train.epochs=60",
                               "train.validate_every=60"}));
      const TrainResult result = run.train();
      ASSERT_TRUE(result.validation);
      EXPECT_EQ(result.validation->figure("accuracy").value, 1.0) << head << " " << precision;
      EXPECT_LT(run.recorder.epochs.back().train_loss, 0.2) << head << " " << precision;
    }
  }
}

// A line's loss and accuracy are means since the line before, also across the end of an epoch; the
// epoch's so far have names of their own.
TEST(Trainer, StepLinesAreOfTheStepsSinceTheLineBefore) {
  const StripeFolder data;  // five full batches an epoch
  std::vector<JsonValue> lines[2];
  for (const int64_t every : {1, 3}) {
    TestRun run(data.config({fmt::format("train.log_every={}", every)}));
    run.train();
    lines[every == 3] = metrics_of(run.folder.path());
  }
  const auto of_kind = [](const std::vector<JsonValue>& all, std::string_view kind) {
    std::vector<JsonValue> some;
    std::ranges::copy_if(all, std::back_inserter(some),
                         [&](const JsonValue& l) { return l.at("kind").as_string() == kind; });
    return some;
  };
  const std::vector<JsonValue> steps = of_kind(lines[0], "step"),
                               thirds = of_kind(lines[1], "step");
  const std::vector<JsonValue> epochs = of_kind(lines[0], "epoch");
  ASSERT_EQ(steps.size(), 15);
  ASSERT_EQ(thirds.size(), 5);
  for (const char* name : {"loss", "accuracy"}) {
    const auto own = [&](size_t step) { return steps[step].at(name).as_double(); };
    for (size_t i = 0; i < 5; ++i) {
      const double mean = (own(3 * i) + own(3 * i + 1) + own(3 * i + 2)) / 3;
      EXPECT_NEAR(thirds[i].at(name).as_double(), mean, 1e-12) << name << " of line " << i;
    }
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      double sum = 0;
      for (size_t batch = 0; batch < 5; ++batch) {
        const JsonValue& line = steps[5 * epoch + batch];
        sum += line.at(name).as_double();
        EXPECT_NEAR(line.at(fmt::format("epoch_{}", name)).as_double(),
                    sum / static_cast<double>(batch + 1), 1e-12)
            << name;
      }
      EXPECT_NEAR(epochs[epoch].at(fmt::format("train_{}", name)).as_double(), sum / 5, 1e-12);
    }
  }
  EXPECT_NE(steps[1].at("loss").as_double(), steps[1].at("epoch_loss").as_double());  // control
}

int64_t batches_tracked(const fs::path& weights) {
  const SafetensorsFile file = SafetensorsFile::open(weights);
  int64_t count = -1;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with("num_batches_tracked")) continue;
    std::memcpy(&count, tensor.bytes.data(), sizeof count);
  }
  return count;
}

TEST(Trainer, BatchesTrackedGoOnAfterInit) {
  const StripeFolder data;  // five batches an epoch
  TestRun first(data.config({"train.epochs=1", "name=first"}));
  first.train();
  EXPECT_EQ(batches_tracked(first.folder.best()), 5);
  const Config config =
      data.config({"train.epochs=2", "init.from=" + first.folder.best().string()});
  fs::path folder;
  {
    TestRun second(config);
    second.recorder.each_step = [&](const StepEvent& event) { second.stop = event.step == 7; };
    second.train();
    folder = second.folder.path();
  }
  EXPECT_EQ(batches_tracked(folder / "last/model-7.safetensors"), 12);
  TestRun resumed(config, folder);
  resumed.train();
  EXPECT_EQ(batches_tracked(folder / "last/model-10.safetensors"), 15);
}

TEST(Trainer, StopsEarlyWhenTheMetricStalls) {
  const StripeFolder data;
  TestRun run(data.config({"train.epochs=50", "train.early_stopping.patience=3",
                           "train.early_stopping.min_delta=10", "train.metric=loss"}));
  const TrainResult result = run.train();
  EXPECT_EQ(result.reason, StopReason::early_stopping);
  EXPECT_EQ(result.epochs, 4);  // the first counts, three stall
  // min_delta is early stopping's: smaller improvements still make the best weights.
  double lowest = 1e9;
  for (const EpochEvent& event : run.recorder.epochs) lowest = std::min(lowest, *event.val_loss);
  EXPECT_EQ(result.best_metric, lowest);
  TestRun whole(data.config({"train.epochs=4", "train.early_stopping.patience=3",
                             "train.early_stopping.min_delta=10", "train.metric=loss"}));
  EXPECT_EQ(whole.train().reason, StopReason::finished) << "there was no epoch left to stop";
}

TEST(Trainer, AnEarlyStoppedRunTrainsNoMoreUntilItIsAskedTo) {
  const StripeFolder data;
  const Overrides stalling = {"train.epochs=50", "train.early_stopping.patience=3",
                              "train.early_stopping.min_delta=10", "train.metric=loss"};
  fs::path folder;
  {
    TestRun run(data.config(stalling));
    run.train();
    folder = run.folder.path();
  }
  const std::string model = "last/model-20.safetensors";  // after four epochs
  const uint64_t before = fs::file_size(folder / "metrics.jsonl");
  for (const char* more : {"train.epochs=50", "train.epochs=60"}) {
    TestRun again(data.config(joined(stalling, {more})), folder);
    EXPECT_THAT(again.recorder.messages,
                testing::Contains(HasSubstr(
                    "nothing to do: stopped early, as loss did not improve in 3 validations. Ask "
                    "for more with train.early_stopping.patience=N, above 3, or 0")));
    const TrainResult result = again.train();
    EXPECT_EQ(result.reason, StopReason::early_stopping);
    EXPECT_EQ(result.epochs, 4);
    EXPECT_TRUE(again.recorder.steps.empty());
    EXPECT_TRUE(fs::exists(folder / model));
    EXPECT_EQ(fs::file_size(folder / "metrics.jsonl"), before);
  }
  {
    TestRun patient(data.config(joined(stalling, {"train.early_stopping.patience=5"})), folder);
    const TrainResult result = patient.train();
    EXPECT_EQ(result.reason, StopReason::early_stopping);
    EXPECT_EQ(result.epochs, 6);
  }
  TestRun endless(
      data.config(joined(stalling, {"train.early_stopping.patience=0", "train.epochs=8"})), folder);
  EXPECT_EQ(endless.train().epochs, 8);
}

TEST(Trainer, AnEarlyStoppedRunWritesItsMissingBestWeightsAgain) {
  const StripeFolder data;
  const Config config = data.config({"train.epochs=50", "train.early_stopping.patience=3",
                                     "train.early_stopping.min_delta=10", "train.metric=loss"});
  fs::path folder;
  {
    TestRun run(config);
    run.train();
    folder = run.folder.path();
  }
  fs::remove(folder / "best.safetensors");
  {
    TestRun stopped(config, folder);
    EXPECT_THAT(stopped.recorder.messages,
                testing::Contains(HasSubstr("a validation of the last weights writes it again")));
    stopped.stop = SIGTERM;
    EXPECT_EQ(stopped.train().reason, StopReason::signal);
    EXPECT_FALSE(fs::exists(folder / "best.safetensors"));
  }
  TestRun again(config, folder);
  const TrainResult result = again.train();
  EXPECT_EQ(result.reason, StopReason::early_stopping);
  EXPECT_EQ(result.best_epoch, 3);
  EXPECT_TRUE(again.recorder.steps.empty());
  EXPECT_TRUE(fs::exists(folder / "best.safetensors"));
}

TEST(Trainer, BestIsTheHighestAccuracyOrTheLowestLoss) {
  const StripeFolder data;
  for (const bool by_accuracy : {true, false}) {
    TestRun run(data.config(
        {"train.epochs=8", by_accuracy ? "train.metric=accuracy" : "train.metric=loss"}));
    const TrainResult result = run.train();
    double best = by_accuracy ? -1 : 1e9;
    int64_t best_epoch = -1;
    for (const EpochEvent& event : run.recorder.epochs) {
      const double metric = by_accuracy ? event.val_figures.front().value : *event.val_loss;
      const bool better = by_accuracy ? metric > best : metric < best;
      EXPECT_EQ(event.best, better);
      if (!better) continue;
      best = metric;
      best_epoch = event.epoch;
    }
    EXPECT_EQ(result.best_metric, best);
    EXPECT_EQ(result.best_epoch, best_epoch);
    const SafetensorsFile file = SafetensorsFile::open(run.folder.best());
    EXPECT_EQ(file.metadata().at("epoch"), fmt::format("{}", best_epoch + 1));
  }
}

// With an average, best.safetensors holds the averaged weights, and the validation figures are its.
TEST(Trainer, BestHoldsTheAverage) {
  const StripeFolder data;
  TestRun run(data.config({"ema.decay=0.9", "train.epochs=4", "train.metric=loss"}));
  const TrainResult result = run.train();
  const Network network = Network::load(run.folder.best(), cpu_device);
  const auto again = evaluate(network, *run.experiment.objective, *run.experiment.val);
  EXPECT_DOUBLE_EQ(again->loss(), result.best_metric);
  ASSERT_EQ(result.best_epoch, 3);
  const auto live =
      evaluate(*run.experiment.network, *run.experiment.objective, *run.experiment.val);
  EXPECT_NE(live->loss(), result.best_metric);
}

TEST(Trainer, TimeBudgetStopsSavedAndValidated) {
  const StripeFolder data;
  TestRun run(data.config(
      {"train.epochs=100000", "train.time_budget_minutes=0.005", "train.validate_every=100000"}));
  const TrainResult result = run.train();
  EXPECT_EQ(result.reason, StopReason::time_budget);
  EXPECT_GE(result.seconds, 0.3);
  EXPECT_LT(result.seconds, 20);
  EXPECT_TRUE(fs::exists(run.folder.best()));
  EXPECT_TRUE(result.validation);
  EXPECT_EQ(load_last(run.folder.last()).state.step, result.steps);
  EXPECT_THAT(run.recorder.messages, testing::Contains(HasSubstr("time is up")));
}

// Once the speed is known the schedule is laid over what fits. Given the plan, the run is the same
// whatever the clock says.
TEST(Trainer, ATimeBudgetSizesTheScheduleAndThePlanRepeats) {
  const StripeFolder data;
  const Config config = data.config(
      {"train.epochs=1000000", "train.time_budget_minutes=1", "schedule.kind=one_cycle"});
  TestRun run(config);
  int64_t planned_at = 0;
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.epochs < 1000000 && planned_at == 0) planned_at = event.step;
    if (planned_at > 0 && event.step >= planned_at + 7) run.stop = SIGTERM;
  };
  const TrainResult result = run.train();
  ASSERT_EQ(result.reason, StopReason::signal);
  EXPECT_GE(planned_at, 26);
  EXPECT_THAT(run.recorder.messages,
              testing::Contains(testing::AllOf(HasSubstr("train.time_budget_minutes=1: "),
                                               HasSubstr(" of 1000000 epochs fit, at "),
                                               HasSubstr(" s a step; the schedule is laid over"))));
  EXPECT_TRUE(run.recorder.steps.back().run_seconds_left);
  const TrainState state = load_last(run.folder.last()).state;
  ASSERT_EQ(state.schedule.planned.size(), 1U);
  EXPECT_EQ(state.schedule.planned[0].step, planned_at - 1);
  EXPECT_LT(state.schedule.planned[0].epochs, 1000000);
  EXPECT_EQ(state.unrepeatable, "");

  TestRun again(config);
  again.trainer.repeat(state);
  const TrainResult repeated = again.train();
  EXPECT_EQ(repeated.reason, StopReason::repeated);
  EXPECT_EQ(repeated.steps, result.steps);
  EXPECT_EQ(hash_of(again.experiment), hash_of(run.experiment));
  EXPECT_TRUE(same_weights(run.folder.path(), again.folder.path()));

  TestRun control(config);
  TrainState unplanned = state;
  unplanned.schedule.planned.clear();
  control.trainer.repeat(unplanned);
  control.train();
  EXPECT_FALSE(same_weights(run.folder.path(), control.folder.path()));
}

/// A run of up to three epochs, of five steps each, whose plan of step 3 was to take 12 steps.
TrainState planned_for_12_steps() {
  TrainState state;
  state.step = 15;
  state.schedule.planned = {{.step = 3, .epochs = 2.4}};
  return state;
}

TEST(Trainer, APlannedRunEndsWithItsSchedule) {
  const StripeFolder data;
  TestRun run(data.config({"schedule.kind=one_cycle", "train.time_budget_minutes=1000"}));
  run.trainer.repeat(planned_for_12_steps());
  const TrainResult result = run.train();
  EXPECT_EQ(result.reason, StopReason::planned);
  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(result.epochs, 2);
  EXPECT_EQ(result.validation_epoch, 2);
  EXPECT_NEAR(run.recorder.steps.back().learning_rate, 0.01 / 25 / 1e4, 1e-12);
  EXPECT_THAT(run.recorder.messages, testing::Contains(HasSubstr("time is up in epoch 3: val ")));
  EXPECT_EQ(load_last(run.folder.last()).state.step, 12);
}

TEST(Trainer, AResumeFollowsTheRecordedPlan) {
  const StripeFolder data;
  const Config config = data.config({"schedule.kind=one_cycle", "train.time_budget_minutes=1000"});
  TestRun run(config);
  run.trainer.repeat(planned_for_12_steps());
  run.recorder.each_step = [&](const StepEvent& event) { run.stop = event.step == 7 ? 15 : 0; };
  ASSERT_EQ(run.train().reason, StopReason::signal);
  const fs::path folder = run.folder.path();
  TestRun whole(config);
  whole.trainer.repeat(planned_for_12_steps());
  whole.train();
  run.folder.close();
  {
    TestRun resumed(config, folder);
    EXPECT_THAT(resumed.recorder.messages, testing::ElementsAre("continues at epoch 2, step 8"));
    EXPECT_EQ(resumed.train().reason, StopReason::planned);
    EXPECT_EQ(resumed.recorder.epochs.back().epochs, 3);
    EXPECT_EQ(hash_of(resumed.experiment), hash_of(whole.experiment));
  }
  EXPECT_EQ(load_last(folder / "last").state.unrepeatable, "");
  {
    TestRun done(config, folder);
    EXPECT_THAT(done.recorder.messages,
                testing::ElementsAre("nothing to do: the 2.4 epochs that fit into "
                                     "train.time_budget_minutes=1000 are done. Ask for more with "
                                     "train.time_budget_minutes=N, or 0 for all 3"));
    EXPECT_EQ(done.train().reason, StopReason::planned);
    EXPECT_TRUE(done.recorder.steps.empty());
  }
  // More time: the schedule is laid over all epochs again, which is said.
  Config more = config;
  more.train.time_budget_minutes = 2000;
  TestRun longer(more, folder);
  EXPECT_THAT(longer.recorder.messages,
              testing::Contains(HasSubstr("train.time_budget_minutes was 1000 and is 2000 now: the "
                                          "learning rate was 4e-08 in the last step; now ")));
  EXPECT_EQ(longer.train().steps, 15);
  EXPECT_EQ(load_last(folder / "last").state.unrepeatable,
            "its schedule changed when it was resumed at step 13");
}

TEST(Trainer, AResumeWithoutItsBudgetIsLaidOverAllEpochs) {
  const StripeFolder data;
  Config config = data.config({"schedule.kind=one_cycle", "train.time_budget_minutes=1000"});
  TestRun run(config);
  run.trainer.repeat(planned_for_12_steps());
  run.recorder.each_step = [&](const StepEvent& event) { run.stop = event.step == 7 ? 15 : 0; };
  ASSERT_EQ(run.train().reason, StopReason::signal);
  const fs::path folder = run.folder.path();
  run.folder.close();
  config.train.time_budget_minutes = 0;
  TestRun resumed(config, folder);
  EXPECT_THAT(resumed.recorder.messages,
              testing::Contains("train.time_budget_minutes was 1000 and is 0: the rest of the "
                                "schedule is laid over all 3 epochs"));
  EXPECT_EQ(resumed.train().steps, 15);
  EXPECT_NEAR(resumed.recorder.steps.back().learning_rate, 0.01 / 25 / 1e4, 1e-12);
}

TEST(Trainer, TheLastPlannedStepIsValidatedOnce) {
  const StripeFolder data;
  const Config config = data.config({"schedule.kind=one_cycle", "train.time_budget_minutes=1000"});
  TestRun run(config);
  run.trainer.repeat(planned_for_12_steps());
  run.recorder.each_step = [&](const StepEvent& event) { run.stop = event.step == 12 ? 15 : 0; };
  const TrainResult stopped = run.train();
  ASSERT_EQ(stopped.reason, StopReason::signal);
  EXPECT_EQ(stopped.validation_epoch, 1);
  const fs::path folder = run.folder.path();
  run.folder.close();
  for (const int64_t validated : {2, -1}) {
    TestRun resumed(config, folder);
    const TrainResult result = resumed.train();
    EXPECT_EQ(result.reason, StopReason::planned);
    EXPECT_EQ(result.validation_epoch, validated);
  }
}

// Its config.yaml still has the shorter length.
TEST(Trainer, ALongerRunCannotBeRepeated) {
  const StripeFolder data;
  Config config = data.config({"train.epochs=1", "schedule.kind=constant"});
  fs::path folder;
  {
    TestRun run(config);
    run.train();
    folder = run.folder.path();
  }
  config.train.epochs = 2;
  TestRun longer(config, folder);
  EXPECT_EQ(longer.train().steps, 10);
  EXPECT_EQ(load_last(folder / "last").state.unrepeatable,
            "its length changed when it was resumed at step 6");
}

// A run that a version without plans began goes on as it began: the clock only stops it.
TEST(Trainer, AnOldRunKeepsItsSchedule) {
  const StripeFolder data;
  const Config config = data.config(
      {"train.epochs=100000", "train.time_budget_minutes=0.02", "schedule.kind=one_cycle"});
  fs::path folder;
  {
    TestRun run(config);
    run.recorder.each_step = [&](const StepEvent&) { run.stop = SIGTERM; };
    run.train();
    folder = run.folder.path();
  }
  std::string state = read_file(folder / "last/state.json", 1 << 20, ErrorKind::data);
  const std::string added = "\"time_budget\":0.02,";
  ASSERT_NE(state.find(added), std::string::npos);
  state.erase(state.find(added), added.size());
  std::ofstream(folder / "last/state.json") << state;
  TestRun old(config, folder);
  EXPECT_EQ(old.train().reason, StopReason::time_budget);
  EXPECT_TRUE(load_last(folder / "last").state.schedule.planned.empty());
  EXPECT_LT(load_last(folder / "last").state.time_budget, 0);
}

// Advice is about epochs whose times are those of later ones.
TEST(Trainer, SteadyEpochsAndTheTimeLeft) {
  const StripeFolder data;
  const auto steady = [](const TestRun& run) {
    std::vector<bool> epochs;
    for (const EpochEvent& event : run.recorder.epochs) epochs.push_back(event.steady);
    return epochs;
  };
  TestRun run(data.config({"train.epochs=4"}));
  run.train();
  EXPECT_THAT(steady(run), testing::ElementsAre(false, true, true, true));
  EXPECT_FALSE(run.recorder.steps[0].epoch_seconds_left) << "the first batch times algorithms";
  const StepEvent& last = run.recorder.steps.back();
  EXPECT_EQ(last.epochs, 4);
  EXPECT_EQ(last.epoch_seconds_left, 0);
  EXPECT_EQ(run.recorder.epochs[0].best_by, "accuracy");
}

TEST(Trainer, CachedFeaturesAreToldWhileTheyAreComputed) {
  const StripeFolder data;
  TestRun run(data.config({"train.epochs=4", "freeze=[backbone]", "unfreeze_at=2",
                           "features=cached", "schedule.restart=2"}));
  run.train();
  std::vector<std::string> told;
  for (const Preparing& one : run.recorder.prepared) {
    told.push_back(fmt::format("{} {}/{}", one.what, one.done, one.all));
  }
  EXPECT_THAT(told, testing::ElementsAre("computing features 0/40", "computing features 8/40",
                                         "computing features 16/40", "computing features 24/40",
                                         "computing features 32/40", "computing features 40/40",
                                         "computing features 0/10", "computing features 8/10",
                                         "computing features 10/10"));
  std::vector<bool> steady;
  for (const EpochEvent& event : run.recorder.epochs) steady.push_back(event.steady);
  EXPECT_THAT(steady, testing::ElementsAre(false, false, false, true));
  for (const StepEvent& event : run.recorder.steps) {
    EXPECT_FALSE(event.epoch < 2 && event.run_seconds_left) << "of layers not trained yet";
  }
  EXPECT_THAT(run.experiment.notes,
              testing::Contains(HasSubstr("; trained: dense; from epoch 3 on: conv2d to dense")));
  EXPECT_THAT(run.recorder.messages,
              testing::Contains("epoch 3: trained from here on: conv2d to dense"));
}

TEST(Trainer, ValidatesAndSavesAsOftenAsTold) {
  const StripeFolder data;
  TestRun run(data.config({"train.epochs=5", "train.validate_every=2", "checkpoint.every=4",
                           "checkpoint.keep=3", "train.log_every=10"}));
  run.train();
  std::vector<int64_t> validated;
  for (const EpochEvent& event : run.recorder.epochs) {
    if (event.val_loss) validated.push_back(event.epoch + 1);
  }
  EXPECT_THAT(validated, testing::ElementsAre(2, 4, 5));  // the last one always
  const std::vector<JsonValue> lines = metrics_of(run.folder.path());
  EXPECT_EQ(count_kind(lines, "step"), 2);
  EXPECT_EQ(count_kind(lines, "epoch"), 5);
  // Checkpoints at 4, 8, 12, 16, 20 (which ends an epoch), 24 and at the end, 25: the last three
  // stay.
  for (const auto& [step, kept] :
       {std::pair{12, false}, {16, false}, {20, true}, {24, true}, {25, true}}) {
    EXPECT_EQ(fs::exists(run.folder.last() / fmt::format("model-{}.safetensors", step)), kept)
        << step;
    EXPECT_EQ(fs::exists(run.folder.last() / fmt::format("state-{}.json", step)), kept) << step;
  }
}

// Every second of a run is some epoch's, and a stage's share never exceeds the whole.
TEST(Trainer, TimesCountSavingAndLogging) {
  const StripeFolder data;
  TestRun run(data.config({"train.epochs=4"}));
  const TrainResult result = run.train();
  double seconds = 0, checkpoint = 0, logging = 0;
  for (const EpochEvent& event : run.recorder.epochs) {
    seconds += event.seconds;
    checkpoint += event.times[Stage::checkpoint];
    logging += event.times[Stage::logging];
    EXPECT_LE(event.times.total(), event.seconds);
    EXPECT_GT(event.times[Stage::step], 0);
    EXPECT_GT(event.times[Stage::validation], 0);
  }
  EXPECT_GT(checkpoint, 0);
  EXPECT_GT(logging, 0);
  EXPECT_LE(seconds, result.seconds);
  // An epoch that brought no better weights saves nothing itself, but follows one that saved.
  for (const EpochEvent& event : run.recorder.epochs) {
    EXPECT_TRUE(event.epoch == 0 || event.times[Stage::checkpoint] > 0) << event.epoch;
  }
}

TEST(Trainer, AccumulatesToTheSameStepAsOneLargeBatch) {
  const StripeFolder data;
  // No batch_norm, no dropout: the mean of two batches of 10 is the batch of 20.
  const std::string layers = "model.layers=[{conv2d: {filters: 4, kernel: 3}}, global_avg_pool2d]";
  const std::vector<std::string> sgd = {layers, "optimizer.kind=sgd", "train.epochs=2"};
  std::vector<std::string> large = sgd, halves = sgd;
  large.emplace_back("train.batch_size=20");
  halves.insert(halves.end(), {"train.batch_size=10", "train.accumulate=2"});
  TestRun a(data.config(large)), b(data.config(halves));
  EXPECT_EQ(a.train().steps, b.train().steps);
  const std::vector<double> x = weights_of(a.experiment), y = weights_of(b.experiment);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5);
}

TEST(Trainer, DryRunSaysWhatItWouldTakeAndLeavesNothing) {
  const StripeFolder data;
  const std::string text = dry_run(data.config());
  for (const char* word : {"40 training and 10 validation images in 2 classes", "parameters",
                           "memory", "activations and the rest", "per epoch of 5 steps"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  EXPECT_FALSE(fs::exists(data / "runs"));
}

TEST(Trainer, UnreadableImagesAreCountedAndTooManyStopIt) {
  const StripeFolder data;
  data.folder().write("train/c0/broken.jpg", "\xff\xd8\xff no image");
  TestRun run(data.config({"train.epochs=1", "data.max_bad=0.05"}));
  run.train();
  EXPECT_EQ(run.experiment.train->bad_samples().size(), 1U);
  TestRun strict(data.config({"train.epochs=1", "data.max_bad=0"}));
  EXPECT_NE(message_of(ErrorKind::data, [&] { strict.train(); }), "no error");
}

TEST(Trainer, AfterEachEpochItsFilesAreThere) {
  const StripeFolder data;
  TestRun run(data.config());
  std::vector<bool> there;
  run.trainer.after_epochs([&] {
    const std::filesystem::path folder = run.folder.path();
    there.push_back(std::filesystem::exists(folder / "last/state.json") &&
                    std::filesystem::exists(run.folder.best()));
  });
  run.train();
  EXPECT_EQ(there, (std::vector<bool>{true, true, true}));
}

}  // namespace
}  // namespace whisker::test
