// A batch norm with max-pooling straight behind it in a Sequential, one operator where the device
// joins them: when that happens, that it trains as the layers apart, and what it keeps.
#include "core/autograd.h"
#include "core/ops.h"
#include "core/pooled_batch_norms.h"
#include "core/tape_listing.h"
#include "layers/layers.h"
#include "layers/plan.h"
#include "tests/layers/step_training.h"
#include "tests/support/devices.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

constexpr ActivationSpec relu_spec{.kind = Activation::relu};

/// The stem of a residual network (He et al. 2015, table 1), then a block whose convolution and
/// shortcut both read its result.
std::shared_ptr<Sequential> network(bool fuse) {
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = 8, .filters = 8, .padding = 1, .bias = false}, "conv");
  body->add<BatchNorm>({.channels = 8}, "bn");
  body->set_fuse(fuse);
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .bias = false}, "conv1");
  net->add<BatchNorm>({.channels = 8, .activation = relu_spec}, "bn1");
  net->add<MaxPool2D>({.kernel = 3, .stride = Pair(2), .padding = 1}, "pool");
  net->add_named("block",
                 std::make_shared<Residual>(body, nullptr, Residual::Options{.fuse = fuse}));
  net->make<GlobalAvgPool2D>();
  net->add<Dense>({.in_features = 8, .units = 3}, "head");
  net->set_fuse(fuse);
  return net;
}

class Training : public StepTraining {
 public:
  Training(Device device, std::optional<DType> compute, bool fuse,
           const std::vector<std::string>& frozen = {})
      : StepTraining(network(fuse), {6, 13, 12, 3}, device, compute, frozen) {}
};

/// "operator of layer" for the layers behind conv1 and before the block.
template <class Pass>
std::vector<std::string> stem_of(Device device, bool fuse, const std::vector<std::string>& frozen,
                                 const Pass& pass) {
  Training training(device, {}, fuse, frozen);
  TapeListing listing;
  pass(training);
  std::vector<std::string> names;
  for (const TapeEntry& entry : listing.entries()) {
    if (entry.kind == TapeKind::op && (entry.layer == "bn1" || entry.layer == "pool")) {
      names.push_back(entry.name + " of " + entry.layer);
    }
  }
  return names;
}

TEST(PooledNorm, IsOneOperatorWhereTheDeviceJoinsIt) {
  const auto step = [](Training& training) { training.step(); };
  const auto evaluate = [](Training& training) { training.evaluate(); };
  const auto apart = ElementsAre("batch_norm of bn1", "max_pool2d of pool");
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.str());
    const auto fused = stem_of(device, true, {}, step);
    if (has_pooled_batch_norms(device.kind)) {
      EXPECT_THAT(fused, ElementsAre("batch_norm_max_pool2d of pool"));
    } else {
      EXPECT_THAT(fused, apart);
    }
    EXPECT_THAT(stem_of(device, false, {}, step), apart);
    EXPECT_THAT(stem_of(device, true, {"bn1"}, step), apart);
    EXPECT_THAT(stem_of(device, true, {}, evaluate), apart);
  }
}

// The range ends between the two.
TEST(PooledNorm, StaysApartAcrossTheEndOfARange) {
  const auto net = network(true);
  const ParameterArena arena(net->parameters(), reference_device, 5);
  const Tensor images = rand_normal({2, 9, 9, 3}, 0, 1, 1, 1).to(reference_device);
  const Pass pass{.training = true};
  TapeListing listing;
  const Convolved normalised = net->forward_range(0, 2, {.y = images}, pass);
  EXPECT_EQ(normalised.y.shape(), Shape({2, 9, 9, 8}));
  EXPECT_EQ(net->forward_range(2, 3, normalised, pass).y.shape(), Shape({2, 5, 5, 8}));
  for (const TapeEntry& entry : listing.entries()) EXPECT_NE(entry.name, "batch_norm_max_pool2d");
}

TEST(PooledNorm, TrainsAsLayersApart) {
  expect_trains_as_layers_apart<Training>({{}, {"conv1"}});
}

// Instead of the normalised picture: the winners and their places.
TEST(PooledNorm, IsPlannedAsTheDeviceKeepsIt) {
  const auto net = network(true);
  const Shape input{6, 13, 12, 3};
  const int64_t picture = 6 * 13 * 12 * 8, windows = 6 * 7 * 6 * 8;
  const int64_t apart = Plan::of(*net, input).kept_bytes(2);
  EXPECT_EQ(Plan::of(*net, input, DeviceKind::cpu).kept_bytes(2), apart);
  for (const DeviceKind device : {DeviceKind::cuda, DeviceKind::reference}) {
    const Plan joint = Plan::of(*net, input, device);
    EXPECT_EQ(apart - joint.kept_bytes(2), 2 * (picture - windows));
    EXPECT_LT(joint.training_bytes(2), Plan::of(*net, input).training_bytes(2));
  }
  net->set_fuse(false);
  EXPECT_EQ(Plan::of(*net, input, DeviceKind::cuda).kept_bytes(2), apart);
  net->set_fuse(true);
  const std::vector<std::string> patterns = {"bn1"};
  net->freeze(patterns);
  EXPECT_EQ(Plan::of(*net, input, DeviceKind::cuda).kept_bytes(2),
            Plan::of(*net, input).kept_bytes(2));
}

}  // namespace
}  // namespace whisker::test
