// Whole runs on sequences: learned, evaluated, saved, loaded, resumed.
#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "tests/support/error_of.h"
#include "tests/support/next_inputs.h"
#include "tests/support/recording_backend.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"
#include "train/data/labelled_sequences.h"
#include "train/data/run_data.h"
#include "train/inference/sequence_classifier.h"
#include "train/inference/text_generator.h"
#include "train/metrics/evaluate.h"

#include <cmath>
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SequenceTraining, LearnsWordsAndClassifiesThemFromTheFile) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  TestRun run(text_config(folder));
  const TrainResult result = run.train();
  EXPECT_GE(result.best_metric, 0.95);
  const Network network = Network::load(run.folder.best(), cpu_device);
  EXPECT_EQ(network.classes(), (std::vector<std::string>{"with", "without"}));
  std::vector<Prediction> all;
  classify_texts(network, inputs_of({"cbcab", "", "cbcbbc", "a"}), 3,
                 [&](const Prediction& one) { all.push_back(one); });
  ASSERT_EQ(all.size(), 4);
  EXPECT_GT(all[0].probabilities[0], 0.5);
  EXPECT_THAT(all[1].error, HasSubstr("no token"));
  EXPECT_GT(all[2].probabilities[1], 0.5);
  // The same text in other company: padding does not matter.
  classify_texts(network, inputs_of({"cbcab"}), 1, [&](const Prediction& one) {
    EXPECT_NEAR(one.probabilities[0], all[0].probabilities[0], 1e-5);
  });
  const LabelledSequences again = open_labelled(network, folder / "words", {}, 16);
  const Objective objective(network.model(), {}, std::vector<int64_t>{1, 1}, cpu_device);
  EXPECT_GE(evaluate(network, objective, *again.source)->figure("accuracy").value, 0.95);
  overflow(network);
  EXPECT_EQ(
      message_of(ErrorKind::checkpoint,
                 [&] { classify_texts(network, inputs_of({"cbcab"}), 1, [](const auto&) {}); }),
      run.folder.best().string() +
          ": expected outputs that are numbers, got NaN or Inf for 'cbcab'. Its weights are "
          "too large or damaged, or its training diverged: use an earlier or another file.");
}

TEST(SequenceTraining, TokensThatTheVocabularyLacksAreSaid) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  const Experiment limited(text_config(folder, {"data.text.max_vocabulary=4"}));
  EXPECT_THAT(limited.notes, Contains(HasSubstr("tokens, such as 'a', are not in the vocabulary")));
  TestRun run(text_config(folder, {"train.epochs=1"}));
  EXPECT_THAT(run.experiment.notes, Not(Contains(HasSubstr("not in the vocabulary"))));
  EXPECT_THAT(run.experiment.notes, Not(Contains(HasSubstr("max_length"))));
  const Experiment cut(text_config(folder, {"data.text.max_length=4", "data.text.keep=last"}));
  EXPECT_THAT(cut.notes,
              Contains(HasSubstr("validation: 18 of 24 texts are longer than "
                                 "data.text.max_length: the last 4 tokens of each are read")));
  run.train();
  const Network network = Network::load(run.folder.best(), cpu_device);
  folder.write("others/with.txt", "xyx\n");
  folder.write("others/without.txt", "b\n");
  EXPECT_THAT(open_labelled(network, folder / "others", {}, 16).notes,
              Contains("75.0 % of the 4 tokens, such as 'x', are not in the vocabulary and are "
                       "read as one unknown token"));
}

// A bias so large that exp() of the forecast overflows while the loss is finite: the run goes on,
// also behind a resume, and any finite metric is better.
TEST(SequenceTraining, GoesOnBehindAMetricThatOverflowed) {
  const TemporaryFolder folder;
  const Config config =
      series_config(folder, {"data.series.log=true", "data.series.difference=0", "train.epochs=4",
                             "schedule.kind=plateau", "train.early_stopping.patience=3"});
  std::filesystem::path folder_of_run;
  int64_t steps = 0;
  {
    TestRun first(config);
    folder_of_run = first.folder.path();
    steps = first.experiment.batches_per_epoch();
    first.recorder.each_step = [&](const StepEvent& event) {
      if (event.step == steps) poison(first.experiment, "dense.bias", 1e4F);
      if (event.step == steps + 1) first.stop = SIGTERM;
    };
    const TrainResult stopped = first.train();
    EXPECT_EQ(stopped.best_epoch, 0);
    EXPECT_TRUE(std::isinf(stopped.best_metric));
  }
  const auto has = [&](const char* file, const char* text) {
    return read_file(folder_of_run / file, 1 << 24, ErrorKind::data).find(text) !=
           std::string::npos;
  };
  EXPECT_TRUE(has("metrics.jsonl", "\"val_mae\":null,\"val_rmse\":null"));
  EXPECT_TRUE(has("last/state.json", "\"best_metric\":null"));
  EXPECT_TRUE(has("last/state.json", "\"stall_metric\":null"));
  TestRun second(config, folder_of_run);
  second.recorder.each_step = [&](const StepEvent& event) {
    if (event.step == steps + 2) poison(second.experiment, "dense.bias", 0);
  };
  const TrainResult result = second.train();
  EXPECT_GE(result.best_epoch, 1);
  EXPECT_TRUE(std::isfinite(result.best_metric));
  EXPECT_TRUE(std::isfinite(second.experiment.schedule->state().best));
}

TEST(SequenceTraining, ResumesBitForBit) {
  for (const bool language : {false, true}) {
    const TemporaryFolder folder;
    write_two_languages(folder);
    const auto config = [&](const std::string& name) {
      const std::vector<std::string> overrides = {"name=" + name, "train.epochs=3"};
      return language ? language_config(folder, overrides) : text_config(folder, overrides);
    };
    TestRun whole(config("whole"));
    whole.train();
    const int64_t k = whole.experiment.batches_per_epoch() + 5;
    EXPECT_EQ(hash_of_run(config("parts"), stopped_at(config("parts"), k)),
              hash_of(whole.experiment))
        << language;
  }
}

TEST(SequenceTraining, ALanguageModelLearnsAndWrites) {
  const TemporaryFolder folder;
  TestRun run(language_config(folder));
  const TrainResult result = run.train();
  EXPECT_LT(result.validation->figure("bits_per_character").value, 0.5);
  EXPECT_NEAR(result.validation->figure("perplexity").value, std::exp(result.validation->loss()),
              1e-9);
  const Network network = Network::load(run.folder.best(), cpu_device);
  const auto write = [&](const GenerationOptions& options) {
    std::string text;
    generate_text(network, "the c", options, [&](std::string_view piece) { text += piece; });
    return text;
  };
  EXPECT_THAT(write({.length = 8, .temperature = 0}), "at sat. ");
  EXPECT_EQ(write({.length = 40, .seed = 3}), write({.length = 40, .seed = 3}));
  EXPECT_NE(write({.length = 200, .seed = 3}), write({.length = 200, .seed = 4}));
  EXPECT_THROW(write({.temperature = -1}), Error);
  overflow(network);
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { write({.length = 1}); }),
              HasSubstr("got NaN or Inf for 'token 1 behind the prompt'"));
}

// A language model's rows are its steps, a forecast's its examples.
TEST(SequenceTraining, AStepCountsEveryRowOfItsBatch) {
  const TemporaryFolder folder;
  for (const Config& config : {language_config(folder), series_config(folder)}) {
    Experiment experiment(config);
    experiment.train->start_epoch(0);
    const std::optional<Batch> batch = experiment.train->next();
    ASSERT_TRUE(batch);
    const std::vector<double> guesses = argmax(experiment.network->outputs(*batch)).to_vector();
    TrainStep step(experiment);
    step.begin({});
    step.run(*batch, {.number = 1, .learning_rate = 0.01});
    const StepTotals totals = step.read().totals;
    EXPECT_EQ(totals.rows, batch->labels.count());
    if (config.data.kind != DataKind::language) continue;
    const std::vector<double> labels = batch->labels.to_vector();
    ASSERT_EQ(guesses.size(), labels.size());
    int64_t right = 0;
    for (size_t i = 0; i < labels.size(); ++i) right += guesses[i] == labels[i];
    EXPECT_EQ(totals.correct, right);
  }
}

// A longer text at once gives what it gives piece by piece with carried states.
TEST(SequenceTraining, CarriedStatesMakeNoDifferenceToTheLoss) {
  const TemporaryFolder folder;
  TestRun run(language_config(folder, {"train.epochs=1"}));
  run.train();
  const auto loss = [&](int64_t steps) {
    const Experiment other(
        language_config(folder, {fmt::format("data.text.steps={}", steps), "name=other"}));
    return evaluate(*run.experiment.network, *run.experiment.objective, *other.val)->loss();
  };
  EXPECT_NEAR(loss(4), loss(40), 1e-5);
}

TEST(SequenceTraining, ASeriesHasEachColumnOnce) {
  const TemporaryFolder folder;
  for (const char* columns : {"data.series.columns=[2,2]", "data.series.columns=[value,2]"}) {
    const Config config = series_config(folder, {columns});
    EXPECT_THAT(message_of(ErrorKind::usage, [&] { open_sequences(config); }),
                HasSubstr("and '2' are the same column, number 2. Name each column once"))
        << columns;
    Config older = config;
    for (older.data.rules = 1; older.data.rules < 3; ++older.data.rules) {
      EXPECT_EQ(open_sequences(older).train_size, open_sequences(series_config(folder)).train_size);
    }
  }
  const Config doubled = series_config(folder, {"data.series.targets=[value,value]"});
  EXPECT_THAT(message_of(ErrorKind::usage, [&] { open_sequences(doubled); }),
              HasSubstr("data.series.targets: 'value' is named twice"));
}

TEST(SequenceTraining, ForecastsInTheUnitsOfTheFile) {
  const TemporaryFolder folder;
  TestRun run(series_config(folder));
  const TrainResult result = run.train();
  // Every year adds 24: what the naive forecast misses and the difference knows.
  EXPECT_LT(result.best_metric, 1);
  EXPECT_THAT(
      result.validation->table(80),
      HasSubstr("naive forecast (the last known value at the same place of the season): mae 24.0"));
  const Network network = Network::load(run.folder.best(), cpu_device);
  Series series = read_series(folder / "s.csv", network.input<SeriesInput>(), 0);
  EXPECT_NEAR(forecast(network, series)[0], 100 + 2 * 96, 1);
  series.values.back() -= 10;  // equal differences are scaled to 0, which no weight enlarges
  EXPECT_THROW(network.preprocess(), Error);
  overflow(network);
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { forecast(network, series); }),
              HasSubstr("got NaN or Inf for 'the forecast'"));
}

TEST(SequenceTraining, OverfitBatchesAreAFewExamplesOfEveryKind) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{},{}\n", i % 2, i, i * 3 % 7);
  folder.write("r.csv", rows);
  const std::vector<std::string> few = {"train.overfit_batches=2"};
  const std::vector<std::string> few_rows = {"data.kind=rows", "data.label_column=1",
                                             "model.layers=[{lstm: {units: 4}}]", few[0],
                                             "data.train=" + (folder / "r.csv").string()};
  const std::pair<const char*, Config> kinds[] = {{"text", text_config(folder, few)},
                                                  {"rows", text_config(folder, few_rows)},
                                                  {"series", series_config(folder, few)},
                                                  {"language", language_config(folder, few)}};
  for (const auto& [kind, config] : kinds) {
    const Experiment experiment(config);
    // Of a language model the predictions of 2 batches of 8 rows of 8 steps.
    const int64_t size = config.data.kind == DataKind::language ? 128 : 16;
    EXPECT_EQ(experiment.data.train_size, size) << kind;
    EXPECT_EQ(experiment.data.val_size, size) << kind;
    EXPECT_EQ(experiment.batches_per_epoch(), 2) << kind;
    const std::string& both = experiment.data.fingerprint;
    const size_t middle = both.find('-');
    EXPECT_EQ(both.substr(0, middle), both.substr(middle + 1)) << kind;
  }
}

TEST(SequenceTraining, ConfigurationsThatDoNotGoTogetherAreRefused) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  const auto error = [&](const std::vector<std::string>& overrides) {
    return message_of(ErrorKind::usage,
                      [&] { const Experiment experiment(text_config(folder, overrides)); });
  };
  EXPECT_EQ(error({}), "no error");
  EXPECT_THAT(error({"train.metric=mae"}), HasSubstr("accuracy, f1"));
  EXPECT_THAT(error({"model.head=[{dense: {units: 5}}]"}), HasSubstr("2 classes"));
}

TEST(SequenceTraining, AValidationSetMayLackAClass) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  folder.write("val.tsv", "with\tbab\nwith\tcac\n");
  folder.write("train.tsv", "with\tbab\nwithout\tbcb\nwith\tcac\nwithout\tccb\n");
  const Experiment experiment(
      text_config(folder, {"data.train=" + (folder / "train.tsv").string(), "data.val_split=0",
                           "data.val=" + (folder / "val.tsv").string(), "train.batch_size=2"}));
  EXPECT_THAT(experiment.notes,
              testing::Contains(HasSubstr("data.val has no texts of 1 of the 2 classes, on which "
                                          "validation is silent: 'without'")));
}

// Class folders with a file per text, a fifth of each for validation.
TEST(SequenceTraining, TextsMayBeFilesInClassFolders) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& label, int i, const char* text) {
    folder.write(fmt::format("reviews/{}/{}.txt", label, i), fmt::format("{} {}\n", text, i));
  };
  for (int i = 0; i < 10; ++i) {
    write("pos", i, "good");
    write("neg", i, "bad");
  }
  folder.write("reviews/urls.txt", "none");
  TestRun run(text_config(folder, {"data.train=" + (folder / "reviews").string(),
                                   "data.val_split=0", "data.text.level=words"}));
  EXPECT_THAT(run.experiment.data.signature.classes, testing::ElementsAre("neg", "pos"));
  EXPECT_EQ(run.experiment.data.train_size, 16);
  EXPECT_EQ(run.experiment.data.val_size, 4);
  EXPECT_THAT(
      run.experiment.notes,
      testing::Contains(HasSubstr("data.train: 20 of 21 files used: 1 not in a class folder")));
  run.train();
  const Network trained = Network::load(run.folder.best(), cpu_device);
  const auto source = open_labelled(trained, folder / "reviews", {}, 8).source;
  source->start_epoch(0);
  EXPECT_EQ(source->next()->size(), 8);
}

// The recorded calls know nothing but device memory: lengths that the host had read would stay
// those of the batch that was captured.
TEST(SequenceTraining, RecordedCallsGiveTheEagerRun) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  for (const char* layer : {"{lstm: {units: 6, bidirectional: true}}",
                            "{gru: {units: 6, layers: 2, dropout: 0.2, return_sequences: true}}, "
                            "{simple_rnn: 6}",
                            "{lstm: {units: 6, return_sequences: true}}"}) {
    const bool language = layer == std::string("{lstm: {units: 6, return_sequences: true}}");
    const auto config = [&](const std::string& name) {
      const std::vector<std::string> overrides = {
          "name=" + name, "device=reference", "train.epochs=4",
          fmt::format("model.layers=[{{embedding: {{input_dim: vocabulary, output_dim: 4}}}}, {}]",
                      layer)};
      return language ? language_config(folder, overrides) : text_config(folder, overrides);
    };
    TestRun eager(config("eager"));
    eager.train();
    RecordingBackend recorder(backend_of(reference_device));
    const ReferenceStandIn stand_in(recorder);
    TestRun captured(
        config("captured"), std::nullopt,
        {.capture = [&](const std::function<void()>& work) { return recorder.capture(work); }});
    captured.train();
    EXPECT_EQ(hash_of(captured.experiment), hash_of(eager.experiment)) << layer;
    EXPECT_EQ(metrics_without_times(captured.folder.path()),
              metrics_without_times(eager.folder.path()))
        << layer;
    // One for each bucket's length, or for the one shape of a text's pieces.
    EXPECT_GE(recorder.captures(), language ? 1 : 3) << layer;
  }
}

// On a GPU eager steps read lengths on the host and captured ones do not: the same up to rounding.
TEST(SequenceTraining, AGpusCapturedStepsFollowEagerOnes) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  const TemporaryFolder folder;
  write_two_languages(folder);
  for (const char* kind : {"simple_rnn", "lstm", "gru"}) {
    const auto loss = [&](const char* graph) {
      TestRun run(text_config(
          folder, {fmt::format("name={}_{}", kind, graph), "device=cuda", "precision=f32",
                   "train.epochs=6", fmt::format("runtime.graph={}", graph),
                   fmt::format("model.layers=[{{embedding: {{input_dim: vocabulary, output_dim: "
                               "8}}}}, {{{}: {{units: 12, layers: 2, bidirectional: true}}}}]",
                               kind)}));
      run.train();
      return run.recorder.epochs.back().train_loss;
    };
    const double eager = loss("false"), captured = loss("true");
    EXPECT_NEAR(captured, eager, 0.02 * eager + 1e-3) << kind;
  }
}

}  // namespace
}  // namespace whisker::test
