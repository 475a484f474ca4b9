// validation.safetensors: what is gathered, written, read back and refused.
#include "train/metrics/validation_examples.h"

#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "data/sequences/series.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

Signature six_classes() {
  return {.input = TextInput{}, .classes = {"a", "b", "c", "d", "e", "f"}};
}

// Example i has label i % 6 and a distinct order of probabilities.
void collect(ExampleCollector& collector, const std::vector<int64_t>& indices) {
  std::vector<float> scores;
  std::vector<double> labels;
  for (const int64_t i : indices) {
    labels.push_back(static_cast<double>(i % 6));
    for (int64_t c = 0; c < 6; ++c) scores.push_back(static_cast<float>((i + 5 * c) % 7) / 21);
  }
  const auto rows = std::ssize(indices);
  Tensor outputs = empty({rows, 6}, {.dtype = DType::f32});
  std::ranges::copy(scores, outputs.data<float>().begin());
  Batch batch;
  batch.labels = from_vector(labels, {rows}, {.dtype = DType::i64});
  batch.indices = indices;
  collector.add(outputs, batch);
}

ValidationExamples some_examples() {
  ExampleCollector collector(six_classes(), 5);
  collect(collector, {0, 1, 2});
  collect(collector, {3, 4});
  RankGroup one;
  ValidationExamples all = collector.of_all_ranks(one);
  all.epoch = 3;
  all.paths = {"a/0.jpg", "b/\xff.jpg", "c/2", "x.csv:4", "e"};
  all.contents = {7, -1, 7, 0, 5};
  all.rest_areas = {.roc_auc = 0.75, .average_precision = 0.5, .classes = 5};
  return all;
}

TEST(ValidationExamples, TheMostProbableClassesInOrder) {
  ExampleCollector collector(six_classes(), 1);
  Tensor outputs = empty({1, 6}, {.dtype = DType::f32});
  std::ranges::copy(std::vector<float>{0.1F, 0.2F, 0.2F, 0.05F, 0.4F, 0.05F},
                    outputs.data<float>().begin());
  Batch batch;
  batch.labels = from_vector({3.0}, {1}, {.dtype = DType::i64});
  batch.indices = {0};
  collector.add(outputs, batch);
  RankGroup one;
  const ValidationExamples all = collector.of_all_ranks(one);
  EXPECT_THAT(all.ranked, ElementsAre(4, 1, 2, 0, 3));  // of equal ones the first class
  EXPECT_THAT(all.probabilities, ElementsAre(0.4F, 0.2F, 0.2F, 0.1F, 0.05F));
  EXPECT_NEAR(all.losses[0], -std::log(0.05), 1e-6);
  EXPECT_EQ(all.probability(0, 2), 0.2F);
  EXPECT_EQ(all.probability(0, 5), 0);  // not listed
  EXPECT_FALSE(all.knows_all());
  EXPECT_FALSE(all.is_correct(0));
  EXPECT_EQ(collector.of_all_ranks(one).size(), 0);
}

TEST(ValidationExamples, ComeBackAsWritten) {
  const TemporaryFolder folder;
  const fs::path file = folder / "validation.safetensors";
  const ValidationExamples written = some_examples();
  write_validation_examples(file, written);
  EXPECT_EQ(written.of, "texts");
  EXPECT_TRUE(read_validation_examples(file) == written);
  ValidationExamples absolute = written;
  absolute.paths[1] = "/home/me/1.jpg";
  EXPECT_THAT(message_of(ErrorKind::internal, [&] { write_validation_examples(file, absolute); }),
              HasSubstr("relative to the data"));
}

// Ranks in threads: each waits until all have given.
class ThreadRanks final : public RankGroup {
 public:
  struct Shared {
    explicit Shared(int world) : given(static_cast<size_t>(world)), all(world) {}
    std::vector<std::string> given;
    std::barrier<> all;
  };
  ThreadRanks(Shared& shared, int rank)
      : RankGroup(environment(rank, std::ssize(shared.given))), shared_(shared) {}
  std::vector<std::string> all_gather(std::string_view bytes) override {
    shared_.given[static_cast<size_t>(rank())] = bytes;
    shared_.all.arrive_and_wait();
    std::vector<std::string> all = shared_.given;
    shared_.all.arrive_and_wait();
    return all;
  }

 private:
  static RankEnvironment environment(int rank, std::ptrdiff_t world) {
    RankEnvironment one;
    one.rank = rank;
    one.world = static_cast<int>(world);
    return one;
  }
  Shared& shared_;
};

TEST(ValidationExamples, OfSeveralRanksAreThoseOfOne) {
  constexpr int64_t examples = 10'000;  // several messages, of ranks with more and fewer
  ExampleCollector alone(six_classes(), examples, most_scores);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < examples; ++i) all.push_back(i);
  collect(alone, all);
  RankGroup one;
  const ValidationExamples expected = alone.of_all_ranks(one);
  ThreadRanks::Shared shared(3);
  std::vector<ValidationExamples> gathered(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(shared, rank);
      ExampleCollector own(six_classes(), examples, most_scores);
      std::vector<int64_t> part;
      for (const int64_t i : all) {
        if ((i % 2 == 0 ? 0 : 1) == rank) part.push_back(i);  // rank 2 has none
      }
      collect(own, part);
      gathered[static_cast<size_t>(rank)] = own.of_all_ranks(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(gathered[0] == expected);
  EXPECT_EQ(std::ssize(expected.scores), 6 * examples);
  EXPECT_EQ(gathered[1].size() + gathered[2].size(), 0);
}

// --- what is not such a file ---------------------------------------------------------------------

struct Parts {
  std::map<std::string, std::string> metadata;
  struct Tensor {
    DType dtype;
    std::vector<uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Tensor> tensors;

  explicit Parts(const fs::path& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    metadata = file.metadata();
    for (const SafetensorsTensor& one : file.tensors()) {
      tensors[one.name] = {one.dtype, one.shape, {one.bytes.begin(), one.bytes.end()}};
    }
  }
  void write(const fs::path& path) const {
    std::vector<SafetensorsEntry> entries;
    for (const auto& one : tensors) {
      const Tensor& tensor = one.second;
      entries.push_back(
          {.name = one.first, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = [&tensor] {
             return std::span<const std::byte>(tensor.bytes);
           }});
    }
    write_safetensors(path, metadata, std::move(entries));
  }
  void resize(const std::string& name, uint64_t count, size_t size) {
    tensors.at(name).shape = {count};
    tensors.at(name).bytes.resize(count * size);
  }
  void replace(std::string_view text, std::string_view by) {
    std::string& all = metadata["validation"];
    all.replace(all.find(text), text.size(), by);
  }
  template <class T>
  void set(const std::string& name, size_t at, T value) {
    std::memcpy(tensors.at(name).bytes.data() + at * sizeof(T), &value, sizeof value);
  }
};

TEST(ValidationExamples, OtherContentsAreRefused) {
  const TemporaryFolder folder;
  const fs::path good = folder / "good.safetensors", bad = folder / "bad.safetensors";
  write_validation_examples(good, some_examples());
  const auto refused = [&](const std::function<void(Parts&)>& change, const char* expected) {
    Parts parts(good);
    change(parts);
    parts.write(bad);
    EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { read_validation_examples(bad); }),
                HasSubstr(expected));
  };
  refused([](Parts& p) { p.metadata.clear(); }, "metadata 'validation'");
  refused([](Parts& p) { p.metadata["validation"] = "{}"; }, "version");
  refused([](Parts& p) { p.metadata["validation"] = R"({"version": 2})"; }, "newer whisker");
  refused([](Parts& p) { p.replace("0.75", "1.75"); }, "'rest_areas' from 0 to 1, got 1.75");
  refused([](Parts& p) { p.replace(R"("classes":5)", R"("classes":7)"); },
          "'rest_areas' from 1 to 6, got 7");
  refused([](Parts& p) { p.resize("contents", 4, 8); }, "'contents' of 5 examples");
  refused([](Parts& p) { p.tensors.erase("labels"); }, "a tensor 'labels', got none");
  refused([](Parts& p) { p.tensors["labels"].dtype = DType::f32; }, "'labels' in I32");
  refused([](Parts& p) { p.set<int32_t>("labels", 4, 6); }, "'labels' from 0 to 5, got 6");
  refused([](Parts& p) { p.set<int32_t>("classes", 24, -1); }, "'classes' from 0 to 5, got -1");
  refused([](Parts& p) { p.set<float>("probabilities", 3, 2.0F); }, "'probabilities' from 0 to 1");
  refused([](Parts& p) { p.set<float>("losses", 3, NAN); }, "losses");
  refused([](Parts& p) { p.set<int64_t>("path_ends", 1, 3); }, "rising 'path_ends'");
  refused([](Parts& p) { p.set<int64_t>("path_ends", 4, 1 << 20); }, "rising 'path_ends'");
  refused([](Parts& p) { p.resize("paths", 26, 1); }, "'path_ends' up to 26, got 25");
  refused([](Parts& p) { p.set<char>("paths", 0, '/'); }, "relative to the data, got '/");
  refused([](Parts& p) { p.set<char>("paths", 2, '\0'); }, "relative to the data");
  refused([](Parts& p) { p.tensors.erase("path_ends"); }, "'path_ends', got none");
  refused([](Parts& p) { p.resize("losses", 4, 4); }, "'losses' of 5 examples");
  refused([](Parts& p) { p.tensors["classes"].shape = {25, 1}; }, "of shape (5,5)");
}

// --- in runs -------------------------------------------------------------------------------------

TEST(ValidationExamples, ARunKeepsThoseOfItsBestWeights) {
  const StripeFolder data(3);
  TestRun run(data.config());
  run.train();
  const ValidationExamples all = read_validation_examples(run.folder.validation());
  EXPECT_EQ(all.of, "images");
  EXPECT_THAT(all.classes, ElementsAre("c0", "c1", "c2"));
  EXPECT_EQ(all.ranks, 3);
  ASSERT_EQ(all.size(), 15);
  EXPECT_EQ(all.paths.front(), "c0/1000.jpg");
  int64_t best_epoch = 0;
  double accuracy = 0;
  for (const EpochEvent& epoch : run.recorder.epochs) {
    if (!epoch.best) continue;
    best_epoch = epoch.epoch + 1;
    accuracy = epoch.val_figures.front().value;
  }
  EXPECT_EQ(all.epoch, best_epoch);
  double correct = 0;
  for (int64_t i = 0; i < all.size(); ++i) {
    correct += all.is_correct(i);
    EXPECT_EQ(all.paths[static_cast<size_t>(i)][1] - '0', all.labels[static_cast<size_t>(i)]);
  }
  EXPECT_DOUBLE_EQ(correct / 15, accuracy);
}

TEST(ValidationExamples, ARunMeasuresTheAreasOfMoreClassesThanItKeeps) {
  const StripeFolder data(6);
  TestRun run(data.config());
  run.train();
  const ValidationExamples all = read_validation_examples(run.folder.validation());
  EXPECT_FALSE(all.knows_all());
  EXPECT_EQ(all.rest_areas.value().classes, 6);
  EXPECT_GT(all.rest_areas.value().roc_auc, 0.5);
}

TEST(ValidationExamples, OfTextsForecastsAndLanguageModels) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  const std::vector<std::string> short_run = {"train.epochs=1"};
  TestRun texts(text_config(folder, short_run));
  texts.train();
  const ValidationExamples read = read_validation_examples(texts.folder.validation());
  EXPECT_EQ(read.of, "texts");
  EXPECT_EQ(read.size(), texts.experiment.data.val_size);
  for (const std::string& path : read.paths)
    EXPECT_THAT(path, testing::MatchesRegex("[a-z]+.txt:[0-9]+"));
  EXPECT_EQ(std::ssize(read.contents), read.size());

  TestRun series(series_config(folder, short_run));
  series.train();
  const ValidationExamples windows = read_validation_examples(series.folder.validation());
  EXPECT_EQ(windows.of, "windows");
  EXPECT_EQ(windows.every, 1);
  EXPECT_EQ(windows.targets, series.experiment.network->input<SeriesInput>().targets);
  ASSERT_EQ(windows.size(), series.experiment.data.val_size);
  EXPECT_EQ(std::ssize(windows.contents), windows.size());
  double error = 0;
  for (size_t i = 0; i < windows.truths.size(); ++i) {
    error += std::abs(static_cast<double>(windows.predictions[i]) -
                      static_cast<double>(windows.truths[i]));
  }
  EXPECT_NEAR(error / static_cast<double>(windows.truths.size()),
              series.recorder.epochs[0].val_figures.front().value, 1e-3);

  TestRun language(language_config(folder, short_run));
  language.train();
  EXPECT_FALSE(fs::exists(language.folder.validation()));
}

TEST(ValidationExamples, OfManyWindowsEveryNth) {
  SeriesInput input{.columns = {"1"}, .targets = {"1"}, .horizon = 2};
  input.target_scaling.resize(2);
  Signature signature{.input = input};
  ExampleCollector collector(signature, 1'200'000);  // 2.4 million numbers: every third
  const auto bases = std::make_shared<ForecastBases>(ForecastBases{
      .input = input, .bases = std::vector<double>(8), .actual = {0, 1, 2, 3, 4, 5, 6, 1e300}});
  Batch batch;
  batch.bases = bases;
  batch.indices = {0, 1, 2, 3};
  collector.add(from_vector({0, 0, 0, 0, 0, 0, 0, 0}, {4, 2}), batch);
  RankGroup one;
  const ValidationExamples all = collector.of_all_ranks(one);
  EXPECT_EQ(all.every, 3);
  EXPECT_THAT(all.truths, ElementsAre(0, 1, 6, std::numeric_limits<float>::max()));
}

TEST(ValidationExamples, ARunGoesOnWithoutTheFile) {
  const StripeFolder data;
  TestRun run(data.config());
  fs::create_directories(run.folder.validation() / "full");  // cannot be replaced
  EXPECT_EQ(run.train().reason, StopReason::finished);
  EXPECT_THAT(run.recorder.messages,
              testing::Contains(testing::AllOf(HasSubstr("validation.safetensors"),
                                               HasSubstr("The run goes on without this file."))));
}

}  // namespace
}  // namespace whisker::test
