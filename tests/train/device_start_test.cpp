// Starting a GPU beside other work: what is wrong with it is said by whoever uses it, and only what
// the network needs is opened.
#include "train/device_start.h"

#include "core/backend.h"
#include "layers/model_builder.h"
#include "support/tiny_training.h"
#include "train/batch_size_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DeviceStart, WhatIsWrongIsSaidByWhoeverUsesTheDevice) {
  for (const char* device : {"cuda:63", "cuda:99"}) {
    const DeviceStart starting(device);
    try {
      resolve_device(device);
      FAIL() << "no machine has so many GPUs";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("device {}: ", device)));
    }
  }
  const DeviceStart starting("cuda:x");
  try {
    resolve_device("cuda:x");
    FAIL() << "x is no number";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
}

TEST(DeviceStart, DevicesThatAreThereAreStarted) {
  for (const char* device : {"cpu", "reference", "auto"}) {
    const DeviceStart starting(device);
    EXPECT_GE(backend_of(resolve_device(device)).properties().size(), 2u);
  }
}

std::vector<CudaLibrary> libraries_of_layers(const std::string& layers, const BuildOptions& build) {
  return libraries_of(*build_model(YamlNode::parse(layers, "layers"), build).net);
}

TEST(LibraryStart, OpensWhatLayersNeed) {
  const BuildOptions pictures{.input = {2, 8, 8, 3}, .classes = 2};
  const BuildOptions sequences{.input = {5, 2, 3}, .batch_axis = 1, .classes = 2};
  EXPECT_THAT(libraries_of_layers("[flatten, {dense: {units: classes}}]", pictures),
              ElementsAre(CudaLibrary::products));
  EXPECT_THAT(
      libraries_of_layers(
          "[{residual: {layers: [{conv2d: {filters: 3, kernel: 3, padding: 1}}]}}, flatten, "
          "{dense: {units: classes}}]",
          pictures),
      ElementsAre(CudaLibrary::products, CudaLibrary::convolutions));
  EXPECT_THAT(libraries_of_layers("[{gru: {units: 4}}, {dense: {units: classes}}]", sequences),
              ElementsAre(CudaLibrary::products, CudaLibrary::recurrent_layers));
}

TEST(LibraryStart, OnAGpuTheyAreOpenAfterwards) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: " << why_no_cuda();
  const Device gpu{DeviceKind::cuda, 0};
  LibraryStart libraries(
      gpu, {CudaLibrary::products, CudaLibrary::convolutions, CudaLibrary::recurrent_layers});
  libraries.wait();
  const CudaStartTimes times = cuda_start_times(gpu);
  EXPECT_GT(times.cublas_lt, 0);
  EXPECT_GT(times.cudnn, 0);
}

// What a person mistyped is told before a device is asked for.
TEST(DeviceStart, DataAndLayersAreReadBeforeTheDeviceIsThere) {
  const StripeFolder data;
  const auto error_of = [&](const std::string& override_with) {
    try {
      const Experiment experiment(data.config({"device=cuda:63", override_with}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(error_of("data.train=nowhere"), HasSubstr("nowhere"));
  EXPECT_THAT(error_of("model=[convolution]"), HasSubstr("convolution"));
  EXPECT_THAT(error_of("freeze=['nothing*']"), HasSubstr("nothing*"));
  EXPECT_THAT(error_of("train.epochs=1"), HasSubstr("device cuda:63: "));
  EXPECT_THAT(error_of("train.batch_size=auto"), HasSubstr("device cuda:63: "));
  const Config mistyped =
      data.config({"device=cuda:63", "train.batch_size=auto", "model=[convolution]"});
  try {
    find_batch_size(mistyped);
    ADD_FAILURE() << "found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("convolution"));
  }
}

}  // namespace
}  // namespace whisker::test
