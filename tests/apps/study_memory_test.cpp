// study memory: the peak of shipped configurations beside that of a real training step, and what
// `summary` predicts of it.
#include "apps/commands/study_target.h"
#include "apps/study/memory_report.h"
#include "core/backend/backend.h"
#include "core/backend/convolution.h"
#include "core/io/safetensors_stream.h"
#include "core/ops/ops.h"
#include "tests/support/temporary_folder.h"
#include "train/experiment.h"
#include "train/loop/train_step.h"
#include "train/planning/memory_advice.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;

struct Shipped {
  const char* config;
  int64_t batch;
};
constexpr Shipped shipped[] = {{"mnist", 16}, {"cats_vs_dogs", 4}, {"finetune_squeezenet", 4}};

struct Peaks {
  int64_t allocator = 0, predicted = 0;
};

// Of the second of two steps of training, without a loader beside it.
Peaks peaks_of(Config config, Device device) {
  Backend& backend = backend_of(device);
  const int64_t before = backend.memory_stats().allocated;
  config.data.prefetch = 1;
  Experiment experiment(std::move(config));
  const int64_t rows = experiment.config.train.batch_size;
  const Shape shape = experiment.network->model().input;
  const Batch batch{
      .inputs =
          rand_normal(shape, 0, 1, 1, 1, {.device = device}).to(experiment.arena->compute_dtype()),
      .labels = zeros({rows}, {.dtype = DType::i64, .device = device}),
      .indices = std::vector<int64_t>(static_cast<size_t>(rows))};
  TrainStep step(experiment);
  step.begin({});
  for (const int64_t number : {1, 2}) {
    backend.reset_peak();
    step.run(batch, {.number = number, .learning_rate = 0, .last_of_epoch = true});
  }
  return {.allocator = backend.memory_stats().peak - before,
          .predicted = predict_memory(experiment, rows).total()};
}

// Without oneDNN they come on top.
bool predicts_workspaces() {
  const Conv2dGeometry g = conv2d_geometry({1, 8, 8, 8}, {8, 3, 3, 8}, false, {}, DType::f32);
  return backend_of(cpu_device).convolution().conv2d_workspace(g, true, true).forward > 0;
}

double ratio(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

TEST(StudyMemory, ThePeakIsTheAllocatorsAndWhatSummaryPredicts) {
  const TemporaryFolder data;
  for (int i = 0; i < 40; ++i) {
    const std::string image = "P6\n4 4\n255\n" + std::string(48, static_cast<char>(i));
    data.write(fmt::format("{}/c{}/{}.ppm", i < 36 ? "train" : "val", i % 2, i), image);
  }
  for (const Shipped& one : shipped) {
    SCOPED_TRACE(one.config);
    StudyTarget target;
    target.name = fmt::format("{}/configs/{}.yaml", WHISKER_SOURCE_DIR, one.config);
    target.arguments = {"data.train=" + (data / "train").string(),
                        "data.val=" + (data / "val").string(),
                        "init.from=",
                        "device=cpu",
                        "deterministic=true",
                        fmt::format("train.batch_size={}", one.batch)};
    const Invocation quiet{.verbosity = -1, .run = {}};
    const int64_t before = backend_of(cpu_device).memory_stats().allocated;
    const MemoryReport report = MemoryReport::of(study_step(target, quiet));
    const int64_t peak = report.peak_bytes() - before;
    const Peaks real = peaks_of(read_config(target.name, target.arguments), cpu_device);
    fmt::print("{}: study {:.2f} MiB, allocator {:.2f} MiB, predicted {:.2f} MiB\n", one.config,
               ratio(peak, 1 << 20), ratio(real.allocator, 1 << 20),
               ratio(real.predicted, 1 << 20));
    EXPECT_NEAR(ratio(peak, real.allocator), 1, 0.02);
    if (predicts_workspaces()) {
      EXPECT_NEAR(ratio(real.predicted, real.allocator), 1, 0.05);
    }
    EXPECT_EQ(report.predicted, real.predicted);
    const auto parts = report.parts();
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0},
                              [](int64_t sum, const auto& part) { return sum + part.second; }),
              report.peak_bytes());
  }
}

TEST(StudyMemory, CountsWhatIsKeptAndWhatRecomputingABlockSaves) {
  StudyTarget target;
  target.expression = "sum(tanh(tanh(x) * y))";
  target.arguments = {"x=ones(1000)", "y=const(ones(1000))", "device=reference"};
  const Invocation quiet{.verbosity = -1, .run = {}};
  const MemoryReport report = MemoryReport::of(study_step(target, quiet));
  ASSERT_EQ(report.samples.size(), 9u);     // 4 forward, 4 backward, one leaf
  EXPECT_EQ(report.samples[3].kept, 8000);  // the results of both tanh; x and y were there
  EXPECT_EQ(report.samples.back().kept, 0);
  EXPECT_THAT(report.text(100), HasSubstr("kept at the peak by"));
  EXPECT_THAT(report.json(), HasSubstr("\"predicted_bytes\":null"));
  EXPECT_TRUE(is_memory_svg(report.svg()));
  EXPECT_FALSE(is_memory_svg(report.svg() + " "));
}

MemoryReport read_again(const std::string& json) {
  std::vector<std::byte> bytes;
  write_safetensors(
      [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); },
      "step", {{"format", "whisker recording"}, {MemoryReport::metadata_key, json}}, {});
  return MemoryReport::find(SafetensorsFile::parse(bytes, "step")).value();
}

TEST(StudyMemory, ComesBackFromARecordingOrIsRefused) {
  StudyTarget target;
  target.expression = "sum(tanh(x) * x)";
  target.arguments = {"x=ones(1000)", "device=reference"};
  Invocation quiet;
  quiet.verbosity = -1;
  const MemoryReport report = MemoryReport::of(study_step(target, quiet));
  const std::string json = report.json();
  const MemoryReport again = read_again(json);
  EXPECT_EQ(again.json(), json);
  EXPECT_EQ(again.text(0), report.text(0));
  EXPECT_EQ(again.svg(), report.svg());
  const auto error_of = [](const std::string& text) {
    try {
      read_again(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::checkpoint);
      return std::string(error.what());
    }
    return std::string("none");
  };
  size_t numbers = 0;
  constexpr std::string_view ending = "_bytes\":";
  for (size_t at = json.find("\"steps\""); (at = json.find(ending, at)) != std::string::npos;) {
    at += ending.size();
    const std::string rest = json.substr(json.find_first_of(",}", at));
    for (const char* wrong : {"-1", "1.5", "17592186044417", "\"\""}) {
      EXPECT_NE(error_of(json.substr(0, at) + wrong + rest), "none") << wrong << rest;
    }
    ++numbers;
  }
  EXPECT_GT(numbers, 50u);
  EXPECT_THAT(error_of("{}"), HasSubstr("network"));
  EXPECT_THAT(error_of(json.substr(0, json.find("\"steps\":")) + "\"steps\":[]}"),
              HasSubstr("expected 1 to 262144 steps, got 0"));
}

}  // namespace
}  // namespace whisker
