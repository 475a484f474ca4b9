// A training run whose GPU is lost half-way ends with the error, and goes on elsewhere from what it
// had saved. Skipped without a GPU.
#include "core/nvidia/cuda_library.h"
#include "tests/support/broken_kernel.h"
#include "tests/support/tiny_training.h"

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr Device gpu{DeviceKind::cuda, 0};
// Names the configuration's file to the process that loses its GPU.
constexpr const char* config_variable = "WHISKER_TEST_CONFIG";

// Ends the process as the error would end the program. The kernel breaks behind the second step of
// the third epoch: the next one meets the error.
[[noreturn]] void train_and_lose_the_gpu() {
  std::exit(exit_code_of([] {
    TestRun run(read_config(std::getenv(config_variable), {}));
    run.recorder.each_step = [](const StepEvent& event) {
      if (event.epoch == 2 && event.batch == 2) nowhere(gpu, 1000).fill_(1);
    };
    run.train();
  }));
}

TEST(CudaLost, ARunGoesOnOnTheCpuFromItsLastCheckpoint) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The process that loses its GPU begins at the top of this test, with its parent's data.
  std::optional<StripeFolder> data;
  const auto config = [&](const char* device) {
    return data->config({std::string("device=") + device, "train.epochs=4"});
  };
  if (!std::getenv(config_variable)) {
    data.emplace();
    const auto file = data->folder().write("config.yaml", print_config(config("cuda")));
    ::setenv(config_variable, file.c_str(), 1);
  }
  EXPECT_EXIT(train_and_lose_the_gpu(),
              testing::ExitedWithCode(static_cast<int>(ErrorKind::device)),
              "The device is lost to this process");
  ::unsetenv(config_variable);

  const Config elsewhere = config("cpu");
  const std::filesystem::path folder = *data / "runs" / elsewhere.name;
  const TrainState saved = load_last(folder / "last").state;
  EXPECT_EQ(saved.epoch, 2);
  EXPECT_EQ(saved.step, 10);
  TestRun rest(elsewhere, folder);
  const TrainResult result = rest.train();
  EXPECT_EQ(result.reason, StopReason::finished);
  EXPECT_EQ(result.epochs, 4);
  EXPECT_EQ(result.steps, 20);
}

}  // namespace
}  // namespace whisker::test
