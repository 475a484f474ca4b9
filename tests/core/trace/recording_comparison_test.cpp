// Where two recordings part: the first tensor and its element, types, shapes, and files by name.
#include "core/trace/recording_comparison.h"

#include "core/backend/backend.h"
#include "core/trace/relu_decisions.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/tape_support.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// x, fc.weight, 1 matmul of layer fc, 2 relu, 3 sum; in f64.
Recording recorded_step() {
  const Tensor x = from_vector({1, 2, 3, 4}, {2, 2}, exact);
  const Tensor w = leaf({1, -1, 2, 1}, {2, 2});
  StepRecorder recorder({.values = true});
  recorder.name(x, "x");
  recorder.name(w, "fc.weight");
  Tensor y;
  {
    const TapeScope layer("fc");
    y = matmul(x, w);
  }
  backward(sum(relu(y)));
  Recording recording = recorder.recording();
  recording.title = "step";
  return recording;
}

Tensor reshape_twice(const Tensor& x) {
  return x.reshape({4}).reshape({2, 2});
}

TapeEntry& entry_named(Recording& recording, const std::string& name) {
  return *std::ranges::find(recording.entries, name, &TapeEntry::name);
}

TEST(RecordingComparison, EqualStepsHaveNoDifference) {
  const RecordingComparison same = RecordingComparison::of(recorded_step(), recorded_step());
  EXPECT_TRUE(same.agrees(0));
  EXPECT_TRUE(same.unmatched.empty());
  EXPECT_GE(same.tensors.size(), 8u);
  EXPECT_THAT(same.text(64, 100), HasSubstr("A and B agree: differences of at most 0 units"));
}

// Of a bias before a batch norm nothing but rounding is left.
TEST(RecordingComparison, GradientsOfLeavesHaveOneScale) {
  const auto step = [](double rounding) {
    const Tensor w = leaf({1, 2}, {2}), b = leaf({0, 0}, {2});
    StepRecorder recorder({.values = true});
    recorder.name(w, "w");
    recorder.name(b, "b");
    backward(sum(w * 8.0) + sum(b * rounding));
    return recorder.recording();
  };
  const RecordingComparison result = RecordingComparison::of(step(1e-16), step(-1e-16));
  const auto found = std::ranges::find_if(
      result.tensors, [](const RecordedDifference& one) { return one.leaf && one.absolute > 0; });
  ASSERT_NE(found, result.tensors.end());
  EXPECT_DOUBLE_EQ(found->relative, 2e-16 / 8);
}

TEST(RecordingComparison, NamesTheFirstTensorThatDiffersAndItsElement) {
  Recording other = recorded_step();
  TapeOutput& relu = entry_named(other, "relu").outputs[0];
  const double before = relu.value.all[2];
  relu.value.all[2] = before + 0.25;
  relu.gradient.all[1] = std::nan("");
  const RecordingComparison result = RecordingComparison::of(recorded_step(), other);
  const RecordedDifference* const value = result.first_beyond(64, false);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->name, "2 relu");
  EXPECT_EQ(value->element, 2);
  EXPECT_EQ(value->absolute, 0.25);
  EXPECT_DOUBLE_EQ(value->relative, 0.25 / (before + 0.25));  // 11 is the largest value
  EXPECT_DOUBLE_EQ(value->units, value->relative * 0x1p53);
  const RecordedDifference* const gradient = result.first_beyond(64, true);
  ASSERT_TRUE(gradient);
  EXPECT_EQ(gradient->name, "2 relu");
  EXPECT_TRUE(std::isinf(gradient->units));
  EXPECT_FALSE(result.agrees(1e300));
  EXPECT_THAT(result.json(64), HasSubstr("\"first_value_beyond\":\"2 relu\""));
}

TEST(RecordingComparison, UnitsAreThoseOfTheCoarsestType) {
  Recording other = recorded_step();
  for (TapeEntry& entry : other.entries) entry.outputs[0].dtype = DType::bf16;
  entry_named(other, "sum").outputs[0].value.all[0] *= 1 + 0x1p-7;
  const RecordingComparison result = RecordingComparison::of(recorded_step(), other);
  EXPECT_EQ(result.unit(), 0x1p-8);
  EXPECT_TRUE(result.agrees(2));
  EXPECT_FALSE(result.agrees(1.5));
}

TEST(RecordingComparison, OtherShapesDifferAndOperatorsOfOneSideAreSaid) {
  Recording other = recorded_step();
  entry_named(other, "x").outputs[0].shape = {4};
  entry_named(other, "relu").name = "abs";
  const RecordingComparison result = RecordingComparison::of(recorded_step(), other);
  EXPECT_FALSE(result.agrees(64));
  EXPECT_THAT(result.unmatched,
              ElementsAre("x is (2,2) in A, (4) in B", "A alone has 2 relu", "B alone has 2 abs"));
  EXPECT_THAT(result.text(64, 0), HasSubstr("\nA and B differ: 1 tensor with another shape, of the "
                                            "others differences of at most "));
  Recording strange = recorded_step();
  for (TapeEntry& entry : strange.entries) entry.name += "2";
  const RecordingComparison nothing = RecordingComparison::of(recorded_step(), strange);
  EXPECT_FALSE(nothing.agrees(64));
  EXPECT_THAT(nothing.text(64, 0), HasSubstr("\nA and B have nothing to compare: no name, layer "
                                             "and shape is in both\n"));
}

// As attention is on one device and not on another.
TEST(RecordingComparison, OperatorsBehindThoseOfOneSideHaveTheirPartners) {
  const auto step = [](bool fused) {
    const Tensor x = leaf({1, -1, 2, 1}, {2, 2}), w = leaf({1, 2, 3, 4}, {2, 2});
    StepRecorder recorder({.values = true});
    recorder.name(x, "x");
    recorder.name(w, "w");
    const Tensor z = fused ? matmul(x, w) : matmul(x.reshape({1, 2, 2}), w).reshape({2, 2});
    backward(sum(reshape_twice(relu(z))));
    return recorder.recording();
  };
  const RecordingComparison result = RecordingComparison::of(step(true), step(false));
  EXPECT_TRUE(result.agrees(0)) << result.text(64, 0);
  EXPECT_EQ(result.misshapen, 0);
  EXPECT_THAT(result.unmatched, AllOf(Not(IsEmpty()), Each(HasSubstr("B alone has "))));
}

TEST(RecordingComparison, AReluThatDecidesOtherwiseIsNamed) {
  Recording other = recorded_step();
  entry_named(other, "relu").outputs[0].value.all[1] = 0;
  const RecordingComparison result = RecordingComparison::of(recorded_step(), other);
  EXPECT_THAT(result.text(64, 0), HasSubstr("\n2 relu has zeros that the other side has not: "));
}

// The step of one relu on x + shift, and a gradient of 100 to its element 1; A, then B.
struct TwoRelus {
  ReluDecisions relus{std::nullopt};
  RecordingComparison result;

  TwoRelus(std::initializer_list<double> x, const std::function<Tensor(const Tensor&)>& of_b) {
    const auto step = [&](const std::function<Tensor(const Tensor&)>& operation) {
      const Tensor leaf_x = leaf(x), c = from_vector({1, 100, 1, 1}, {4}, exact);
      StepRecorder recorder({.values = true, .relus = &relus});
      recorder.name(leaf_x, "x");
      backward(sum(operation(leaf_x) * c));
      return recorder.recording();
    };
    const Recording a = step([](const Tensor& t) { return relu(t); });
    relus.begin_b();
    result = RecordingComparison::of(a, step(of_b));
    result.relus = relus.elements();
    result.relus_alike = relus.changed();
  }
};

TEST(RecordingComparison, RelusThatRoundingDecidesDoNotCount) {
  const auto rounded = [](const Tensor& x) { return relu(affine(x, 1, -1e-16)); };
  const TwoRelus to_zero({1, 1e-16, 2, -3}, rounded),
      from_zero({1, 0, 2, -3}, [](const Tensor&x) { return relu(affine(x, 1, 1e-16)); });
  for (const TwoRelus* two : {&to_zero, &from_zero}) {
    EXPECT_EQ(two->relus.changed(), 1);
    EXPECT_EQ(two->relus.elements(), 4);
    EXPECT_TRUE(two->result.agrees(2)) << two->result.text(2, 0);
    EXPECT_THAT(two->result.text(2, 0),
                HasSubstr("\nrelu: 1 of 4 elements decide otherwise in B, next to 0 and within "
                          "rounding; B goes on as A decides, so that they do not count "
                          "(--tolerance)\n"));
    EXPECT_THAT(two->result.json(2), HasSubstr("\"relus\":4,\"relus_decided_as_a\":1"));
  }
}

// A relu that cuts off at 1e-14: 45 units, as the tolerance allows; but the others are equal.
TEST(RecordingComparison, RelusThatDifferByMoreThanRoundingCount) {
  const TwoRelus cut({1, 1e-14, 2, -3}, [](const Tensor& x) {
    return relu(
        where(greater(x, full(x.shape(), 1e-13, x.options())), x, zeros(x.shape(), x.options())));
  });
  EXPECT_EQ(cut.relus.changed(), 0);
  EXPECT_FALSE(cut.result.agrees(512));
  EXPECT_EQ(cut.result.first_beyond(512, true)->name, "x");
  // Beside one that rounding decides, a wrong slope is found.
  const TwoRelus wrong({1, 1e-16, 2, -3},
                       [](const Tensor& x) { return relu(affine(x, 1.0 + 1e-12, -2e-16)); });
  EXPECT_EQ(wrong.relus.changed(), 1);
  EXPECT_FALSE(wrong.result.agrees(512));
}

TEST(RecordingComparison, WhatRelusOfAGaveIsKeptInItsPrecisionUntilBHasIt) {
  const auto kept = [before = backend_of(reference_device).memory_stats().allocated] {
    return backend_of(reference_device).memory_stats().allocated - before;
  };
  const TapeEntry entry{.name = "relu"};
  ReluDecisions relus{std::nullopt};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const int64_t already = kept();
    relus.see(entry, ones({1000}, {.dtype = dtype}));
    EXPECT_EQ(kept() - already, 1000 * static_cast<int64_t>(size_of(dtype)));
  }
  relus.begin_b();
  for (int i = 0; i < 2; ++i) relus.see(entry, ones({1000}));
  EXPECT_EQ(kept(), 0);
  EXPECT_EQ(relus.elements(), 2000);
}

// A tensor of a file over f32 values that outlive it.
SafetensorsTensor file_tensor(const std::string& name, std::vector<uint64_t> shape,
                              const std::vector<float>& values) {
  return {.name = name,
          .dtype = DType::f32,
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(values))};
}

TEST(RecordingComparison, AFileNamesLayersParametersAndGradients) {
  const std::vector<float> product = {5, 1, 11, 1}, gradient = {4, 4, 6, 6}, wrong = {4, 4, 6, 7};
  const auto compared = [&](const std::vector<float>& of_weight) {
    return RecordingComparison::of(
        recorded_step(),
        SafetensorsFile::of("t", {file_tensor("fc", {2, 2}, product),
                                  file_tensor("fc.weight.grad", {2, 2}, of_weight)}));
  };
  EXPECT_EQ(compared(gradient).tensors.size(), 2u);
  EXPECT_TRUE(compared(gradient).agrees(0));
  EXPECT_EQ(compared(wrong).first_beyond(64, true)->name, "fc.weight");
  // What is given decides nothing, as a relu does.
  const std::vector<float> zeros = {0, 0, 0, 0};
  const RecordingComparison given = RecordingComparison::of(
      recorded_step(), SafetensorsFile::of("t", {file_tensor("x", {2, 2}, zeros)}));
  EXPECT_THAT(given.text(64, 100), AllOf(HasSubstr("differ"), Not(HasSubstr("has zeros"))));
  EXPECT_THAT(test::message_of(ErrorKind::checkpoint,
                               [&] {
                                 RecordingComparison::of(
                                     recorded_step(),
                                     SafetensorsFile::of("t", {file_tensor("f", {4}, product)}));
                               }),
              HasSubstr("none of its 1 tensor has the name of a layer"));
}

TEST(RecordingComparison, FourAxesOfAFileAreReadChannelsSecond) {
  Recording image;
  image.entries = {{.kind = TapeKind::constant, .name = "images"}};
  // (N,H,W,C): channel c of pixel p is 10 c + p.
  image.entries[0].outputs = {{.shape = {1, 1, 3, 2}, .value = {.all = {0, 10, 1, 11, 2, 12}}}};
  const std::vector<float> torch = {0, 1, 2, 10, 11, 12}, own = {0, 10, 1, 11, 2, 12};
  const auto compared = [&](std::vector<uint64_t> shape, const std::vector<float>& values) {
    return RecordingComparison::of(
        image, SafetensorsFile::of("t", {file_tensor("images", std::move(shape), values)}));
  };
  EXPECT_TRUE(compared({1, 2, 1, 3}, torch).agrees(0));
  EXPECT_THAT(compared({1, 2, 1, 3}, torch).text(64, 100),
              HasSubstr("1 tensor of B read as PyTorch's (N,C,H,W)\n"));
  EXPECT_TRUE(compared({1, 1, 3, 2}, own).agrees(0));
  image.entries[0].outputs[0].shape = {1, 1, 1, 6};
  EXPECT_TRUE(compared({1, 6, 1, 1}, own).agrees(0));
  image.entries[0].outputs[0].shape = {1, 2, 2, 2};
  image.entries[0].outputs[0].value.all = {0, 10, 1, 11, 2, 12, 3, 13};
  const std::vector<float> square = {0, 1, 2, 3, 10, 11, 12, 13};
  EXPECT_TRUE(compared({1, 2, 2, 2}, square).agrees(0));
  EXPECT_EQ(compared({1, 2, 2, 2}, square).ambiguous, 1);
}

}  // namespace
}  // namespace whisker
