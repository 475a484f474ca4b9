// A recorded step: what is saved, who is named, which layer ran, what is left out, all values.
#include "core/trace/step_recorder.h"

#include "core/autograd/recompute.h"
#include "core/io/text_table.h"
#include "core/trace/step_frames.h"
#include "core/trace/tape_listing.h"
#include "tests/core/trace/recording_support.h"
#include "tests/core/trace/tape_support.h"

#include <limits>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Pass {
  Tensor x = from_vector({1, 2, 3, 4, 5, 6}, {2, 3}, exact);
  Tensor w = from_vector({1, -1, 1, -1, 1, -1}, {3, 2}, exact);

  void run(StepRecorder& recorder) {
    w.set_requires_grad();
    recorder.name(x, "images");
    recorder.name(w, "fc.weight");
    affine(x, 2, 0);  // a side result
    Tensor y;
    {
      const TapeScope outer("net");
      const Tensor halved = affine(x, 0.5, 0);
      const TapeScope inner("net.fc");
      y = matmul(halved, w);
    }
    backward(sum(mul(relu(y), y)));
  }
};

TEST(StepRecorder, NumbersOperatorsAndSaysWhatEachKeeps) {
  StepRecorder recorder({.values = true});
  Pass().run(recorder);
  std::vector<std::string> ops, layers, saved;
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.kind != TapeKind::op) continue;
    ops.push_back(fmt::format("{} {}", entry.number, entry.name));
    layers.push_back(entry.layer);
    std::string kept;
    for (const TapeSaved& one : entry.saved) kept += fmt::format("{}:{} ", one.what, one.bytes);
    saved.push_back(kept);
  }
  EXPECT_THAT(ops, ElementsAre("1 affine", "2 matmul", "3 relu", "4 mul", "5 sum"));
  EXPECT_THAT(layers, ElementsAre("net", "net.fc", "", "", ""));
  // The matrix product keeps its left operand only: nothing wants the gradient of that. relu keeps
  // its result, which mul keeps too, without more memory.
  EXPECT_THAT(saved, ElementsAre("", "input:48 ", "output:32 ", "input:0 input:32 ", ""));
}

TEST(StepRecorder, BackwardStepsRunFromTheRootToTheLeaves) {
  StepRecorder recorder({.values = true});
  Pass().run(recorder);
  std::vector<std::string> steps(6);
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.backward_step > 0) steps[static_cast<size_t>(entry.backward_step)] = entry.name;
  }
  const Recording recording = recorder.recording();
  EXPECT_EQ(entry_named(recording, "sum").gradient_norm(), 1);
  EXPECT_FALSE(entry_named(recording, "affine").recorded);
  EXPECT_THAT(steps, ElementsAre("", "sum", "mul", "relu", "matmul", "fc.weight"));
}

TEST(TapeListing, PrintsBothDirectionsAndTotals) {
  StepRecorder recorder({.values = true});
  Pass().run(recorder);
  const std::string text = tape_listing(recorder.recording());
  EXPECT_THAT(text, HasSubstr("1  affine  net     images        (2,3)   f64    not recorded"));
  EXPECT_THAT(text, HasSubstr("2  matmul  net.fc  1, fc.weight  (2,2)   f64    input"));
  EXPECT_THAT(text, HasSubstr("5  accumulate  fc.weight  (3,2)"));
  EXPECT_THAT(text, HasSubstr("forward   5 operators, 4 on the tape, "));
  EXPECT_THAT(text, HasSubstr("; 112 B kept for backward\n"));
  EXPECT_THAT(text, HasSubstr("beside    1 operators that no gradient passes, "));
}

TEST(StepRecorder, WithoutATapeEveryOperatorIsListed) {
  StepRecorder recorder;
  const NoGrad off_tape;
  relu(affine(ones({2}, exact), 1, 1));
  EXPECT_EQ(recorder.recording().entries.size(), 3u);  // the ones, affine, relu
}

TEST(StepRecorder, PutsThePreviousObserverBack) {
  StepRecorder outer;
  { const StepRecorder inner; }
  EXPECT_EQ(grad_mode.observer, &outer);
}

TEST(StepRecorder, RecordsValuesAndWhatEachOperatorGave) {
  StepRecorder recorder({.values = true});
  Pass().run(recorder);
  const Recording recording = recorder.recording();
  const TapeEntry &relu = entry_named(recording, "relu"), &mul = entry_named(recording, "mul"),
                  &matmul = entry_named(recording, "matmul"),
                  &weight = entry_named(recording, "fc.weight");
  // images / 2 times the weights: rows of 3 and 7.5, and their negatives.
  EXPECT_THAT(matmul.outputs[0].value.all, ElementsAre(3, -3, 7.5, -7.5));
  EXPECT_THAT(relu.outputs[0].value.all, ElementsAre(3, 0, 7.5, 0));
  // d(sum(relu(y) y))/dy: relu(y) by mul, y by relu, where y is above 0.
  ASSERT_EQ(mul.given.size(), 2u);
  EXPECT_TRUE(mul.given[1].first);
  EXPECT_THAT(mul.given[1].sum.all, ElementsAre(3, 0, 7.5, 0));
  ASSERT_EQ(relu.given.size(), 1u);
  EXPECT_FALSE(relu.given[0].first) << "mul gave to y before";
  EXPECT_THAT(relu.given[0].sum.all, ElementsAre(6, 0, 15, 0));
  EXPECT_THAT(matmul.outputs[0].gradient.all, ElementsAre(6, 0, 15, 0));
  EXPECT_EQ(matmul.given[0].sum.all, weight.outputs[0].gradient.all);
}

TEST(StepRecorder, LargeTensorsHaveStatistics) {
  std::vector<double> values(70'000, 0.25);  // two chunks of the sums
  values[1] = -1;
  values[69'999] = 3;
  values[7] = 0;
  const RecordedValues recorded = RecordedValues::of(from_vector(values, {70'000}));
  ASSERT_TRUE(recorded.statistics.has_value());
  EXPECT_TRUE(recorded.all.empty());
  EXPECT_EQ(*recorded.statistics, TensorStatistics::of(values));
  const TensorStatistics& s = *recorded.statistics;
  EXPECT_EQ(s.minimum, -1);
  EXPECT_EQ(s.maximum, 3);
  EXPECT_EQ(s.zeros, 1);
  EXPECT_NEAR(s.mean, (69'997 * 0.25 + 2) / 70'000, 1e-12);
  EXPECT_NEAR(s.norm, std::sqrt(69'997 / 16.0 + 10), 1e-9);
  EXPECT_EQ(s.histogram.front(), 1);
  EXPECT_EQ(s.histogram.back(), 1);
  EXPECT_EQ(s.histogram[8], 1);        // 0
  EXPECT_EQ(s.histogram[10], 69'997);  // a quarter
}

// The range of two finite numbers may lie beyond the largest double.
// Bins are found in f32, and in f64 where f32 has no number for bins so narrow. 70,001 are no whole
// block.
TEST(StepRecorder, HistogramsOfSinglesAreThoseOfDoubles) {
  for (const float scale : {1.0F, 0x1p-10F, 0x1p-136F}) {
    std::vector<float> singles;
    for (int i = 0; i < 70'001; ++i) singles.push_back(scale * static_cast<float>(i % 65));
    singles[3] = std::numeric_limits<float>::quiet_NaN();
    singles[70'000] = std::numeric_limits<float>::infinity();
    const TensorStatistics s =
        TensorStatistics::of(singles.data(), DType::f32, std::ssize(singles));
    EXPECT_EQ(s, TensorStatistics::of(std::vector<double>(singles.begin(), singles.end())));
    EXPECT_EQ(s.not_finite, 2);
    EXPECT_EQ(s.histogram[1], 2 * 1077 - 1) << scale;
    EXPECT_EQ(std::accumulate(s.histogram.begin(), s.histogram.end(), int64_t{0}), 69'999);
  }
}

TEST(StepRecorder, HistogramsTellLargeIntegersApart) {
  std::vector<int32_t> integers;
  for (int i = 0; i < 64; ++i) integers.push_back((1 << 30) + i);
  const TensorStatistics s =
      TensorStatistics::of(integers.data(), DType::i32, std::ssize(integers));
  for (const int64_t count : s.histogram) EXPECT_NEAR(static_cast<double>(count), 2, 1);
}

TEST(StepRecorder, StatisticsOfTheLargestNumbersStayInTheirBins) {
  const double large = std::ldexp(1.0, 1023);
  const TensorStatistics s = TensorStatistics::of(std::vector<double>{-large, 0, large, large});
  EXPECT_EQ(s.histogram.front(), 1);
  EXPECT_EQ(s.histogram[16], 1);
  EXPECT_EQ(s.histogram.back(), 2);
}

TEST(TextTable, AlignsByCodePointsAndDropsTrailingBlanks) {
  TextTable table({"name", ">n"});
  table.add({"\u2207x", "10"});
  table.add({"long name"});
  EXPECT_EQ(table.str("  "),
            "  name        n\n"
            "  ---------  --\n"
            "  \u2207x         10\n"
            "  long name\n");
}

TEST(TextTable, WrapsItsWidestColumnsOfTextWhereTheTerminalIsNarrow) {
  TextTable table({"layer", "operands", ">ms"});
  table.add({"layer1.0.conv1", "1, layer1.0.conv1.weight, layer1.0.conv1.bias", "0.071"});
  table.add({"fc", "2", "0.1"});
  EXPECT_EQ(table.str(" ", 34),
            " layer         operands         ms\n"
            " ------------  ------------  -----\n"
            " layer1.0.     1,            0.071\n"
            " conv1         layer1.0.\n"
            "               conv1.\n"
            "               weight,\n"
            "               layer1.0.\n"
            "               conv1.bias\n"
            " fc            2               0.1\n");
  EXPECT_EQ(wrap_text("ab cd  efghijk l", 5, CutWords::never),
            (std::vector<std::string>{"ab cd", "efghijk", "l"}));
  EXPECT_EQ(wrap_text("\u2207\u2207\u2207 \u2207", 3, CutWords::longest),
            (std::vector<std::string>{"\u2207\u2207\u2207", "\u2207"}));
}

// The block's operators are shown once, with what they keep when backward runs them again.
TEST(StepRecorder, ARecomputedBlockIsShownOnce) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  StepRecorder recorder({.values = true});
  const Tensor y =
      recompute("block",
                [&](const Tensor& h, bool) {
                  const Tensor inner = recompute(
                      "block.inner", [&](const Tensor& z, bool) { return tanh(z * w); }, h, {{w}});
                  return exp(inner);
                },
                x * 2.0, {{w}});
  backward(sum(y));
  const Recording recording = recorder.recording();
  std::vector<std::string> ops, backward_ops;
  for (const TapeEntry& entry : recording.entries) {
    if (entry.kind == TapeKind::op) {
      ops.push_back(fmt::format("{}{}: {}", entry.name, entry.recomputed() ? " again" : "",
                                entry.saved_bytes()));
    }
    if (entry.name == "tanh") {
      EXPECT_THAT(entry.outputs[0].gradient.all, ElementsAre(testing::Gt(0), testing::Gt(0)));
      EXPECT_EQ(entry.layer, "block.inner");
      EXPECT_EQ(entry.given.size(), 1u);
    }
  }
  for (const size_t i : recording.backward_order()) {
    backward_ops.push_back(recording.entries[i].name);
  }
  EXPECT_THAT(ops, ElementsAre("affine: 0", "mul again: 0", "tanh again: 0", "recompute again: 0",
                               "exp again: 0", "recompute: 16", "sum: 0"));
  EXPECT_THAT(backward_ops, ElementsAre("sum", "recompute", "exp", "recompute", "tanh", "mul",
                                        "affine", "leaf", "leaf"));
  const StepFrames frames(recording);
  const auto kept = [&](const std::string& heading) {
    for (size_t i = 0; i < frames.count(); ++i) {
      if (frames.text(i).find(heading) != std::string::npos) return frames.text(i);
    }
    return std::string();
  };
  EXPECT_THAT(kept("forward: 3 tanh"),
              HasSubstr("keeps nothing for backward, which runs it again; 0 B in all"));
  EXPECT_THAT(kept("backward 2: 6 recompute"), HasSubstr("frees x; 16 B, 32 B still kept"));
  EXPECT_THAT(kept("backward 2: 6 recompute"), HasSubstr("dx = dy, once the block has run again"));
}

}  // namespace
}  // namespace whisker
