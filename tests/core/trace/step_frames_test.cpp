// Frames show the step forwards and backwards; no line is longer than asked for.
#include "core/trace/step_frames.h"

#include "core/io/json.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/recording_support.h"
#include "tests/core/trace/tape_support.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;

Recording residual_step() {
  const Tensor x = leaf({1, 2}, {1, 2});
  StepRecorder recorder({.values = true});
  recorder.name(x, "x");
  const Tensor h = affine(x, 2, 0);
  backward(sum(h + tanh(h)));
  return recorder.recording();
}

std::string all_of(const StepFrames& frames, const FrameOptions& options = {}) {
  std::string text;
  for (size_t i = 0; i < frames.count(); ++i) text += frames.text(i, options);
  return text;
}

TEST(StepFrames, ShowBothDirections) {
  const Recording recording = residual_step();
  const StepFrames frames(recording);
  ASSERT_EQ(frames.count(), 9u);  // affine, tanh, add, sum; sum, add, tanh, affine, x
  EXPECT_EQ(frames.loss(), 3u);
  EXPECT_EQ(frames.text(1),
            "[2/9] forward: 2 tanh\n"
            "  y = tanh(x)\n"
            "  x = 1 affine  (1,2) f64  [[2, 4]]\n"
            "  y             (1,2) f64  [[0.964, 0.9993]]\n"
            "  y[0,1] = tanh(4) = 0.9993\n"
            "  keeps for backward: y; 16 B, 16 B in all\n");
  EXPECT_THAT(frames.text(3), HasSubstr("backward begins here, with dy = 1\n"));
  EXPECT_EQ(frames.text(6),
            "[7/9] backward 3: 2 tanh\n"
            "  dy  (1,2) f64  arrives  [[1, 1]]\n"
            "  dx = dy * (1 - y^2)\n"
            "  dx[0,0] = 1 * (1 - 0.964^2) = 0.07065\n"
            "  gradient of 1 affine  (1,2) f64  grows to  [[1.071, 1.001]]\n"
            "  frees y; 16 B, 0 B still kept\n");
  EXPECT_THAT(frames.text(8), HasSubstr("accumulate x"));
  EXPECT_THAT(frames.text(8), HasSubstr("[[2.141, 2.003]]"));
}

// Several operands that operators made are told apart, and what no gradient is asked of is said.
TEST(StepFrames, SayWhatIsKeptAndWhatGetsNoGradient) {
  const Tensor x = leaf({1, 2, 3, 4}, {1, 2, 2, 1});
  StepRecorder recorder({.values = true});
  const Tensor h = affine(x, 2, 0);
  recorder.name(x, "x");
  const Tensor mask = full({1, 2, 2, 1}, 0.5, x.options());
  recorder.name(mask, "mask");
  const Tensor pooled = max_pool2d(mul(h, tanh(h)) * mask, {.kernel = 2});
  backward(sum(pooled));
  const Recording recording = recorder.recording();
  const StepFrames frames(recording);
  const std::string all = all_of(frames);
  EXPECT_THAT(all, HasSubstr("keeps for backward: a, b; 32 B"));
  EXPECT_THAT(all, HasSubstr("keeps for backward: mask; 32 B"));
  EXPECT_THAT(all, HasSubstr("keeps for backward: argmax ("));
  EXPECT_THAT(all, HasSubstr("  no gradient is asked of b = mask\n"));
}

TEST(StepFrames, EmptyTensorsAreSaidToBe) {
  const Tensor x = leaf({}, {0, 3});
  StepRecorder recorder({.values = true});
  recorder.name(x, "x");
  backward(sum(affine(x, 2, 0)));
  const Recording recording = recorder.recording();
  const StepFrames frames(recording);
  for (const bool all_values : {false, true}) {
    const std::string all = all_of(frames, {.all_values = all_values});
    for (const char* line : {"\n  x  (0,3) f64", "\n  dy  (0,3) f64  arrives"}) {
      EXPECT_THAT(all, HasSubstr(fmt::format("{}{}empty\n", line, all_values ? "\n    " : "  ")));
    }
    EXPECT_THAT(all, Not(HasSubstr("not recorded")));
  }
}

// Its sign differs between devices.
TEST(StepFrames, NaNHasNoSign) {
  const Tensor x = leaf({-0.0, 1}, {2});
  const Recording recording = step_of([&] { return sum(div(x, affine(x, -1, 0))); });
  const std::string text = StepFrames(recording).text(1);
  EXPECT_THAT(text, HasSubstr("[nan, -1]"));
}

TEST(StepFrames, AllValuesReadBackAsTheSameNumbers) {
  const Recording recording = residual_step();
  const std::string text = StepFrames(recording).text(1, {.all_values = true});
  const size_t at = text.rfind("[0,:] ");
  double first = 0, second = 0;
  std::istringstream(text.substr(at + 6)) >> first >> second;
  EXPECT_EQ(first, std::tanh(2.0));
  EXPECT_EQ(second, std::tanh(4.0));
}

TEST(StepFrames, FindLooksRoundAbout) {
  const Recording recording = residual_step();
  const StepFrames frames(recording);
  EXPECT_EQ(frames.find("tanh", 0), 1u);
  EXPECT_EQ(frames.find("tanh", 1), 6u);
  EXPECT_EQ(frames.find("tanh", 6), 1u);
  EXPECT_EQ(frames.find("conv2d", 4), 4u);
}

TEST(StepFrames, LinesFitTheirColumns) {
  const Tensor x = rand_normal({3, 9, 9, 2}, 0, 1, 1, 1), w = rand_normal({4, 3, 3, 2}, 0, 1, 1, 2);
  w.set_requires_grad("a.parameter.with.a.long.name.in.a.deep.module.of.a.network.weight");
  StepRecorder recorder({.values = true});
  {
    const TapeScope scope("a.layer.with.a.long.name.in.a.deep.module.of.a.network");
    backward(mean(conv2d(x, w, {}, {.padding = 1})));
  }
  const Recording recording = recorder.recording();
  const StepFrames frames(recording);
  for (const bool all : {false, true}) {
    std::istringstream lines(all_of(frames, {.width = 100, .all_values = all}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }),
                100)
          << line;
    }
  }
}

// What a student sees of tensors whose values are not kept.
TEST(StepFrames, LargeOperatorsHaveAnElementWithItsNumbers) {
  const Tensor x = leaf({3, 0, 1, 2}, {2, 2}), ones_x = ones({2, 4000}, exact);
  const Recording recording = step_of([&] { return sum(relu(matmul(x, ones_x * 0.5))); });
  const StepFrames frames(recording);
  const std::string all = all_of(frames, {.width = 0});
  for (const char* line : {"y[0,62] = 3 * 0.5 + 0 * 0.5 = 1.5\n", "y[0,62] = max(1.5, 0) = 1.5\n",
                           "y = 1.5 + 1.5 + 1.5 + ... (8000 terms) = 1.2e+04\n",
                           "dx[0,0] = dy = 1\n", "dx[0,62] = 1 * (1.5 > 0) = 1\n",
                           "da[0,0] = 1 * 0.5 + 1 * 0.5 + 1 * 0.5 + ... (4000 terms) = 2000\n"}) {
    EXPECT_THAT(all, testing::HasSubstr(line));
  }
  const auto frame_of = [](const Tensor& large) {
    const Recording sums = step_of([&] { return sum(large.set_requires_grad("large")); });
    return StepFrames(sums).text(0, {.width = 0});
  };
  EXPECT_THAT(frame_of(ones({10'000}, exact)),
              testing::HasSubstr("\n  no example of y: a sum of more than 8,192 terms; a smaller "
                                 "--batch-size has fewer\n"));
  EXPECT_THAT(frame_of(ones({8'192}, exact)), testing::HasSubstr("(8192 terms) = 8192\n"));
  EXPECT_THAT(frame_of(affine(ones({5'000}, exact), std::nan(""), 0)),
              testing::HasSubstr("y = nan + nan + nan + ... (5000 terms) = nan\n"));
  const Recording rows = step_of([] {  // of 40,000 logits 40 count
    return cross_entropy(zeros({40, 1000}, exact).set_requires_grad("x"),
                         zeros({40}, {.dtype = DType::i64, .device = reference_device}));
  });
  EXPECT_THAT(StepFrames(rows).text(0, {.width = 0}), testing::HasSubstr("(40 terms) = 6.908\n"));
}

TEST(StepFrames, JsonHasEveryNumber) {
  const Recording recording = residual_step();
  JsonWriter writer;
  StepFrames(recording).write_json(writer, 6);
  const JsonValue json = JsonValue::parse(writer.str(), {});
  EXPECT_EQ(json.at("frame").as_int(), 7);
  EXPECT_EQ(json.at("given").items()[0].at("values").items()[0].as_double(),
            1 + (1 - std::tanh(2.0) * std::tanh(2.0)));
  EXPECT_EQ(json.at("operands").items()[0].at("rule").as_string(), "dx = dy * (1 - y^2)");
}

}  // namespace
}  // namespace whisker
