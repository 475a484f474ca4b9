// Training in bf16 on the CPU: it learns, files hold the f32 masters, a resume is exact, and what a
// device cannot train in is refused.
#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Every compute view holds its rounded master, wherever there is one; returns how many there are.
int expect_views_follow(const ParameterArena& arena) {
  int views = 0;
  for (const auto& parameter : arena.parameters()) {
    if (parameter->value().dtype() == DType::f32) continue;
    ++views;
    EXPECT_EQ(parameter->value().to_vector(),
              parameter->master().to(parameter->value().dtype()).to_vector())
        << parameter->name();
  }
  return views;
}

TEST(Precision, OfEachDevice) {
  const Device first_gpu{DeviceKind::cuda, 0};
  EXPECT_EQ(compute_dtype(PrecisionKind::automatic, cpu_device), DType::f32);
  EXPECT_EQ(compute_dtype(PrecisionKind::automatic, reference_device), DType::f32);
  const CudaGpu ampere{"NVIDIA A100", 80}, turing{"Tesla T4", 75};
  EXPECT_EQ(compute_dtype(PrecisionKind::automatic, first_gpu, ampere), DType::bf16);
  EXPECT_EQ(compute_dtype(PrecisionKind::automatic, first_gpu, turing), DType::f16);
  EXPECT_EQ(compute_dtype(PrecisionKind::bf16, first_gpu, ampere), DType::bf16);
  EXPECT_EQ(compute_dtype(PrecisionKind::bf16, cpu_device), DType::bf16);
  EXPECT_EQ(compute_dtype(PrecisionKind::f16, first_gpu, turing), DType::f16);
  const auto message = [](PrecisionKind precision, Device device, const CudaGpu& card = {}) {
    return message_of(ErrorKind::usage, [&] { compute_dtype(precision, device, card); });
  };
  EXPECT_THAT(message(PrecisionKind::f16, cpu_device),
              AllOf(HasSubstr("cpu"), HasSubstr("Use precision: bf16 or f32.")));
  EXPECT_THAT(
      message(PrecisionKind::bf16, first_gpu, turing),
      AllOf(HasSubstr("Tesla T4, compute capability 7.5"), HasSubstr("Use precision: f16")));
  EXPECT_THAT(message(PrecisionKind::f16, reference_device), HasSubstr("Use precision: f32."));
  EXPECT_THAT(message(PrecisionKind::bf16, reference_device), HasSubstr("Use precision: f32."));
}

TEST(Precision, Bf16FilesHoldTheMasters) {
  const StripeFolder data;
  TestRun run(data.config({"precision=bf16"}));
  run.train();
  const LoadedCheckpoint last = load_last(run.folder.last());
  const auto find = [&](const char* name) {
    return run.experiment.arena->read(parameter_named(run.experiment, name));
  };
  for (const char* name : {"conv2d.bias", "dense.bias", "batch_norm.weight"}) {
    const SafetensorsTensor* tensor = last.model.find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, DType::f32);
    const std::vector<float> master = find(name);
    const auto bytes = std::as_bytes(std::span(master));
    EXPECT_TRUE(std::ranges::equal(tensor->bytes, bytes)) << name;
  }
  // Small updates are not lost, as they would be if the bf16 copy were what is trained.
  bool finer = false;
  for (const float v : find("dense.bias")) finer |= v != static_cast<float>(bf16_t(v));
  EXPECT_TRUE(finer);
}

TEST(Precision, Bf16ResumesBitForBit) {
  const StripeFolder data;
  std::vector<std::string> overrides = lively_overrides();  // accumulation, an average, mixup
  overrides.emplace_back("precision=bf16");
  const Config config = data.config(overrides);
  std::string expected, expected_metrics;
  {
    TestRun run(config);
    run.train();
    expected = hash_of(run.experiment);
    expected_metrics = metrics_without_times(run.folder.path());
    expect_views_follow(*run.experiment.arena);
  }
  for (const int64_t k : {1, 4, 7}) {
    const std::filesystem::path folder = stopped_at(config, k);
    TestRun resumed(config, folder);
    EXPECT_EQ(expect_views_follow(*resumed.experiment.arena), 6);
    resumed.train();
    EXPECT_EQ(hash_of(resumed.experiment), expected) << "stopped at " << k;
    EXPECT_EQ(metrics_without_times(folder), expected_metrics) << "stopped at " << k;
  }
}

}  // namespace
}  // namespace whisker::test
