// study roofline: given times and ceilings, what it says; and a network's operations beside those
// that `summary` counts. Measured times are nowhere compared.
#include "apps/commands/study_target.h"
#include "apps/study/roofline_report.h"
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "layers/memory_plan.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A product of 2 * 64^3 operations over 3 * 64^2 elements of f64, then tanh of 64^2: forwards 1 ms
// each, backwards 2 ms.
Recording timed_product() {
  const TensorOptions exact{.dtype = DType::f64, .device = reference_device};
  const Tensor a = ones({64, 64}, exact).set_requires_grad("a");
  const Tensor b = ones({64, 64}, exact).set_requires_grad("b");
  StepRecorder recorder;
  {
    const TapeScope scope("body.fc");
    backward(sum(tanh(matmul(a, b))));
  }
  Recording recording = recorder.recording();
  recording.title = "a product";
  for (TapeEntry& entry : recording.entries) {
    entry.forward_ms = 1;
    entry.backward_ms = 2;
  }
  return recording;
}

RooflineReport report_at(const Ceilings& ceilings) {
  Recording recording = timed_product();
  recording.ceilings = ceilings;
  return RooflineReport::of(recording, "times are given");
}

TEST(StudyRoofline, APassStandsBesideTheLowerOfItsCeilings) {
  // 1 GFLOP/s, 1 GB/s: products need 0.52 ms to compute and 0.1 ms to move.
  const RooflineReport report = report_at({.tflops = 1e-3, .gb_per_s = 1, .overhead_ms = 1e-3});
  std::vector<std::string> names;
  for (const RooflinePass& pass : report.passes) {
    names.push_back(pass.name + (pass.backward ? " backward" : ""));
  }
  EXPECT_THAT(names, ElementsAre("matmul", "tanh", "sum", "sum backward", "tanh backward",
                                 "matmul backward"));
  const RooflinePass &product = report.passes[0], &tanh = report.passes[1];
  EXPECT_DOUBLE_EQ(product.fraction(), 2 * 64 * 64 * 64 / 1e9 * 1e3);
  EXPECT_EQ(report.bound(product), "compute");
  EXPECT_DOUBLE_EQ(report.passes[5].fraction(), product.fraction());  // twice the work and time
  EXPECT_DOUBLE_EQ(tanh.fraction(), 2 * 8 * 64 * 64 / 1e9 * 1e3);
  EXPECT_EQ(report.bound(tanh), "memory");
  EXPECT_THAT(report.far_below(), ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(report.reason(tanh),
              HasSubstr("2 tanh, layer body.fc: 1 ms, 6.6 % of its ceiling, bound by memory: "
                        "0.0655 of 1 GB/s"));
}

TEST(StudyRoofline, LittleWorkIsBoundByOverhead) {
  const RooflineReport report = report_at({.tflops = 100, .gb_per_s = 1000, .overhead_ms = 0.01});
  EXPECT_EQ(report.bound(report.passes[0]), "overhead");
  EXPECT_THAT(report.reason(report.passes[0]), HasSubstr("an operator on one element 10 us"));
  EXPECT_THAT(report.text(0), ::testing::Not(HasSubstr("above 100 %")));
  const RooflineReport fast = report_at({.tflops = 1e-4, .gb_per_s = 1, .overhead_ms = 1e-3});
  EXPECT_THAT(fast.text(0), HasSubstr("above 100 %: operands were still in caches, or the "
                                      "algorithm needs fewer operations"));
}

TEST(StudyRoofline, TextFitsAndLayersAddUp) {
  const RooflineReport report = report_at({.tflops = 1e-3, .gb_per_s = 1, .overhead_ms = 1e-3});
  for (const RooflineReport& one : {report, report.by_layer()}) {
    const std::string text = one.text(100);
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      EXPECT_LE(text.find('\n', at) - at, 100u) << text;
    }
    EXPECT_THAT(text, HasSubstr("9 ms, at the ceilings "));
  }
  const RooflineReport layers = report.by_layer();
  ASSERT_EQ(layers.passes.size(), 2u);
  EXPECT_EQ(layers.passes[0].layer, "body.fc");
  EXPECT_DOUBLE_EQ(layers.passes[0].work.operations, 2 * 64 * 64 * 64 + 2 * 64 * 64);
  EXPECT_DOUBLE_EQ(layers.passes[0].ms, 3);
  EXPECT_THAT(report.json(), HasSubstr("\"bound_by\":\"compute\""));
  EXPECT_TRUE(is_roofline_svg(report.svg()));
  EXPECT_FALSE(is_roofline_svg(report.svg() + " "));
}

// Twice the multiply-adds of the layers' own cost, and a little for what is no product.
TEST(StudyRoofline, OperationsAreThoseThatTheLayersCount) {
  struct Case {
    std::string network;
    std::vector<std::string> overrides;
    int64_t classes;
  };
  const TemporaryFolder folder;
  const std::string vit = folder
                              .write("vit.yaml",
                                     "data: {train: nowhere, image_size: 64}\n"
                                     "model: {preset: vit_s_16, values: {dim: 96, blocks: 2}}\n")
                              .string();
  const Case cases[] = {{"small_resnet", {"data.image_size=64"}, 10},
                        {"squeezenet1_1", {"data.image_size=64"}, 10},
                        {vit, {}, 10},
                        {WHISKER_SOURCE_DIR "/configs/keras_lstm.yaml", {"data.train=nowhere"}, 0}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.network);
    StudyTarget target;
    target.name = one.network;
    target.arguments = one.overrides;
    target.arguments.push_back("device=cpu");
    target.network = {.batch = 2, .classes = one.classes};
    Invocation quiet;
    quiet.verbosity = -1;
    const Recording recording = record_target(target, false, quiet);
    double operations = 0;
    for (size_t i = 0; i < recording.entries.size(); ++i) {
      if (recording.entries[i].kind != TapeKind::op) continue;
      operations += operator_work(recording, i).forward.operations;
    }
    const Config config = read_study_config(target, quiet).config;
    const auto products = 2 * static_cast<double>(study_multiply_adds(config, target.network));
    EXPECT_GE(operations, products);
    EXPECT_LE(operations, 1.05 * products);
  }
}

}  // namespace
}  // namespace whisker
