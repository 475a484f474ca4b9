// The end of a residual block with a projection, whose two batch norms are one operator where the
// device joins them: when that happens, and that it trains as the layers apart.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/ops.h"
#include "core/tape_listing.h"
#include "layers/layers.h"
#include "tests/layers/step_training.h"
#include "tests/support/devices.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

constexpr ActivationSpec relu_spec{.kind = Activation::relu};

/// A basic block (He et al. 2015, fig. 5) from 8 to 12 channels behind a convolution, and a dense
/// layer.
std::shared_ptr<Sequential> network(bool fuse) {
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = 8, .filters = 12, .stride = 2, .padding = 1, .bias = false},
                    "conv1");
  body->add<BatchNorm>({.channels = 12, .activation = relu_spec}, "bn1");
  body->add<Conv2D>({.in_channels = 12, .filters = 12, .padding = 1, .bias = false}, "conv2");
  body->add<BatchNorm>({.channels = 12}, "bn2");
  auto projection = std::make_shared<Sequential>();
  projection->add<Conv2D>(
      {.in_channels = 8, .filters = 12, .kernel = 1, .stride = 2, .bias = false}, "conv");
  projection->add<BatchNorm>({.channels = 12, .momentum = 0.25}, "bn");
  body->set_fuse(fuse);
  projection->set_fuse(fuse);
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .activation = relu_spec}, "stem");
  net->add_named("block", std::make_shared<Residual>(body, projection, Residual::Options{}));
  net->make<GlobalAvgPool2D>();
  net->add<Dense>({.in_features = 12, .units = 3}, "head");
  net->set_fuse(fuse);
  return net;
}

class Training : public StepTraining {
 public:
  Training(Device device, std::optional<DType> compute, bool fuse,
           const std::vector<std::string>& frozen = {})
      : StepTraining(network(fuse), {6, 9, 9, 3}, device, compute, frozen) {}
};

/// "operator of layer" for each batch norm of the block, in the order they run.
template <class Pass>
std::vector<std::string> norms_of(Device device, bool fuse, const std::vector<std::string>& frozen,
                                  const Pass& pass) {
  Training training(device, {}, fuse, frozen);
  TapeListing listing;
  pass(training);
  std::vector<std::string> names;
  for (const TapeEntry& entry : listing.entries()) {
    if (entry.name.starts_with("batch_norm")) names.push_back(entry.name + " of " + entry.layer);
  }
  return names;
}

TEST(Residual, JoinsTheNormOfItsProjectionWhereTheDeviceCan) {
  const auto step = [](Training& training) { training.step(); };
  const auto evaluate = [](Training& training) { training.evaluate(); };
  const auto apart = ElementsAre("batch_norm of block.projection.bn", "batch_norm of block.bn1",
                                 "batch_norm of block.bn2");
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.str());
    if (joins_batch_norms(zeros({2, 3}, {.device = device}))) {
      EXPECT_THAT(norms_of(device, true, {}, step),
                  ElementsAre("batch_norm of block.bn1", "batch_norm_pair of block.bn2"));
    } else {
      EXPECT_THAT(norms_of(device, true, {}, step), apart);
    }
    EXPECT_THAT(norms_of(device, false, {}, step), apart);
    EXPECT_THAT(norms_of(device, true, {"block.projection.bn"}, step), apart);
    EXPECT_THAT(norms_of(device, true, {"block.bn2"}, step), apart);
    EXPECT_THAT(norms_of(device, true, {}, evaluate), apart);
  }
}

TEST(Residual, TrainsTheNormOfItsProjectionAsLayersApart) {
  expect_trains_as_layers_apart<Training>({{}, {"stem"}, {"block.projection.conv", "stem"}});
}

TEST(Residual, RepeatsBitForBit) {
  for (const Device device : test_devices()) {
    const bool gpu = device.kind == DeviceKind::cuda;
    const CudaOptions before = gpu ? cuda_options(device) : CudaOptions();
    if (gpu) {
      CudaOptions repeating = before;
      repeating.deterministic = true;
      set_cuda_options(device, repeating);
    }
    for (const DType dtype : test_dtypes(device)) {
      if (dtype == DType::f64) continue;
      SCOPED_TRACE(fmt::format("{} {}", device.str(), name_of(dtype)));
      std::optional<DType> compute;
      if (dtype != DType::f32) compute = dtype;
      EXPECT_EQ(after_two_steps<Training>(device, compute, true),
                after_two_steps<Training>(device, compute, true));
    }
    if (gpu) set_cuda_options(device, before);
  }
}

}  // namespace
}  // namespace whisker::test
