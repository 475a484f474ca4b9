// Starting a GPU beside other work: what is wrong with it is said by whoever uses it, and only what
// the network needs is opened.
#include "train/device/device_start.h"

#include "core/backend/backend.h"
#include "layers/builder/model_builder.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"
#include "train/device/device_choice.h"
#include "train/planning/batch_size_search.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::Not;

bool is_open(const char* library) {
  std::ifstream maps("/proc/self/maps");
  const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
  return mapped.find(fmt::format("lib{}.so", library)) != std::string::npos;
}

// Ends the process after work(), saying which of these libraries it has opened: what one test opens
// stays open, so that each has to be looked at in a process of its own.
[[noreturn]] void end_after(const std::function<void()>& work) {
  work();
  std::string opened;
  for (const char* name :
       {"whisker_cuda", "cublasLt", "cudnn_heuristic", "cudnn_engines_precompiled", "cudnn_adv"}) {
    if (is_open(name)) opened += fmt::format(" {}", name);
  }
  fmt::print(stderr, "opened:{}.\n", opened);
  std::exit(0);
}

TEST(DeviceStart, WhatIsWrongIsSaidByWhoeverUsesTheDevice) {
  for (const char* device : {"cuda:63", "cuda:99"}) {
    const DeviceStart starting(device);
    EXPECT_THAT(message_of(ErrorKind::device, [&] { choose_device(device); }),
                HasSubstr(fmt::format("device {}: ", device)));
  }
  const DeviceStart starting("cuda:x");
  EXPECT_NE(message_of(ErrorKind::usage, [] { choose_device("cuda:x"); }), "no error");
}

TEST(DeviceStart, DevicesThatAreThereAreStarted) {
  for (const char* device : {"cpu", "reference", "auto"}) {
    const DeviceStart starting(device);
    EXPECT_GE(backend_of(choose_device(device).device).properties().size(), 2u);
  }
}

void start(const char* device) {
  const DeviceStart starting(device);
}

// What has not begun when a start goes is not done.
void start_until_open(const char* device) {
  const DeviceStart starting(device);
  for (int turn = 0; turn < 3000 && !is_open("whisker_cuda"); ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(DeviceStart, HostDevicesOpenNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* device : {"cpu", "reference"}) {
    EXPECT_EXIT(end_after([&] { start(device); }), ExitedWithCode(0), HasSubstr("opened:."))
        << device;
  }
}

TEST(DeviceStart, AGpusLibraryIsOpened) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: " << why_no_cuda();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* device : {"auto", "cuda", "cuda:0"}) {
    EXPECT_EXIT(end_after([&] { start_until_open(device); }), ExitedWithCode(0),
                HasSubstr("opened: whisker_cuda."))
        << device;
  }
}

std::vector<CudaLibrary> libraries_of_layers(const std::string& layers, const BuildOptions& build) {
  return libraries_of(*build_model(YamlNode::parse(layers, "layers"), build).net);
}

TEST(LibraryStart, OpensWhatLayersNeed) {
  const BuildOptions images{.input = {2, 8, 8, 3}, .classes = 2};
  const BuildOptions sequences{.input = {5, 2, 3}, .batch_axis = 1, .classes = 2};
  EXPECT_THAT(libraries_of_layers("[flatten, {dense: {units: classes}}]", images),
              ElementsAre(CudaLibrary::products));
  EXPECT_THAT(
      libraries_of_layers(
          "[{residual: {layers: [{conv2d: {filters: 3, kernel: 3, padding: 1}}]}}, flatten, "
          "{dense: {units: classes}}]",
          images),
      ElementsAre(CudaLibrary::products, CudaLibrary::convolutions));
  EXPECT_THAT(libraries_of_layers("[{gru: {units: 4}}, {dense: {units: classes}}]", sequences),
              ElementsAre(CudaLibrary::products, CudaLibrary::recurrent_layers));
}

TEST(LibraryStart, AHostDeviceHasNone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open = [] {
    LibraryStart libraries(cpu_device, {CudaLibrary::products});
    libraries.wait();
    libraries.wait();
  };
  EXPECT_EXIT(end_after(open), ExitedWithCode(0), HasSubstr("opened:."));
}

TEST(LibraryStart, OpensThoseAndNoOthersAndCountsTheTime) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: " << why_no_cuda();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open = [](std::vector<CudaLibrary> wanted) {
    const Device first_gpu{DeviceKind::cuda, 0};
    LibraryStart libraries(first_gpu, std::move(wanted));
    libraries.wait();
    const CudaStartTimes times = cuda_start_times(first_gpu);
    fmt::print(stderr, "timed:{}{}.\n", times.cublas_lt > 0 ? " cuBLASLt" : "",
               times.cudnn > 0 ? " cuDNN" : "");
  };
  EXPECT_EXIT(end_after([&] { open({}); }), ExitedWithCode(0),
              AllOf(HasSubstr("timed:."), HasSubstr("opened: whisker_cuda.")));
  EXPECT_EXIT(end_after([&] { open({CudaLibrary::products}); }), ExitedWithCode(0),
              AllOf(HasSubstr("timed: cuBLASLt."), HasSubstr("opened: whisker_cuda cublasLt.")));
  EXPECT_EXIT(end_after([&] { open({CudaLibrary::convolutions}); }), ExitedWithCode(0),
              AllOf(HasSubstr("timed: cuDNN."), HasSubstr(" cudnn_heuristic"),
                    HasSubstr(" cudnn_engines_precompiled"), Not(HasSubstr("cudnn_adv"))));
  EXPECT_EXIT(end_after([&] { open({CudaLibrary::recurrent_layers}); }), ExitedWithCode(0),
              AllOf(HasSubstr("timed: cuDNN."), HasSubstr(" cudnn_adv"),
                    Not(HasSubstr("cudnn_engines_precompiled"))));
  EXPECT_EXIT(end_after([&] {
                open({CudaLibrary::products, CudaLibrary::recurrent_layers});
              }),
              ExitedWithCode(0),
              AllOf(HasSubstr("timed: cuBLASLt cuDNN."), HasSubstr(" cudnn_adv")));
}

// What a person mistyped is told before a device is asked for.
TEST(DeviceStart, DataAndLayersAreReadBeforeTheDeviceIsThere) {
  const StripeFolder data;
  const auto error_with = [&](const std::string& override_with) {
    return error_of([&] {
      Config config = data.config({"device=cuda:63", override_with});
      settle_batch_size(config);
      const Experiment experiment(std::move(config));
    });
  };
  EXPECT_THAT(error_with("data.train=nowhere"), HasSubstr("nowhere"));
  EXPECT_THAT(error_with("model=[convolution]"), HasSubstr("convolution"));
  EXPECT_THAT(error_with("freeze=['nothing*']"), HasSubstr("nothing*"));
  EXPECT_THAT(error_with("optimizer.groups=[{pattern: 'nothing*'}]"), HasSubstr("nothing*"));
  EXPECT_THAT(error_with("train.epochs=1"), HasSubstr("device cuda:63: "));
  EXPECT_THAT(error_with("train.batch_size=auto"), HasSubstr("device cuda:63: "));
  const auto error_of_search = [&](const std::vector<std::string>& mistyped) {
    std::vector<std::string> overrides = {"device=cuda:63", "train.batch_size=auto"};
    overrides.insert(overrides.end(), mistyped.begin(), mistyped.end());
    return error_of([&] { find_batch_size(data.config(overrides)); });
  };
  EXPECT_THAT(error_of_search({"model=[convolution]"}), HasSubstr("convolution"));
  EXPECT_THAT(
      error_of_search({"model=[flatten, {dense: {units: classes}}]", "data.train_image_size=12"}),
      HasSubstr("data.train_image_size"));
  EXPECT_THAT(error_of_search({}), HasSubstr("device cuda:63: "));
}

}  // namespace
}  // namespace whisker::test
