// The table of fused layers, one row for each pattern that any dtype has: what runs as one operator
// where, and that it trains as the layers unfused.
#include "layers/fusion.h"

#include "core/autograd/autograd.h"
#include "core/backend/fused_ops.h"
#include "core/trace/step_recorder.h"
#include "layers/layers.h"
#include "layers/memory_plan.h"
#include "tests/layers/step_training.h"
#include "tests/support/devices.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

constexpr ActivationSpec relu_spec{.kind = Activation::relu};

/// Layers that tell three classes apart behind `layers`, which leave `channels`.
std::shared_ptr<Sequential> classifier(std::shared_ptr<Sequential> layers, int64_t channels) {
  layers->make<GlobalAvgPool2D>();
  layers->add<Dense>({.in_features = channels, .units = 3}, "head");
  return layers;
}

/// The stem of a residual network (He et al. 2015, table 1), then a block whose convolution and
/// shortcut both read its result.
std::shared_ptr<Sequential> stem() {
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = 8, .filters = 8, .padding = 1, .bias = false}, "conv");
  body->add<BatchNorm>({.channels = 8}, "bn");
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .bias = false}, "conv1");
  net->add<BatchNorm>({.channels = 8}, "bn1");
  net->make<ActivationLayer>(relu_spec);
  net->add<MaxPool2D>({.kernel = 3, .stride = Pair(2), .padding = 1}, "pool");
  net->add_named("block", std::make_shared<Residual>(body, nullptr, Residual::Options{}));
  return classifier(net, 8);
}

/// A basic block (He et al. 2015, fig. 5) from 8 to 12 channels behind a convolution.
std::shared_ptr<Sequential> block_with_projection() {
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
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .activation = relu_spec},
                   "conv1");
  net->add_named("block", std::make_shared<Residual>(body, projection, Residual::Options{}));
  return classifier(net, 12);
}

/// Activations and pooling as layers of their own.
std::shared_ptr<Sequential> epilogues() {
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1}, "conv1");
  net->make<ActivationLayer>(relu_spec);
  net->add<MaxPool2D>({.kernel = 2}, "pool");
  net->add<BatchNorm>({.channels = 8}, "bn");
  net->make<ActivationLayer>(relu_spec);
  net->make<GlobalAvgPool2D>();
  net->add<Dense>({.in_features = 8, .units = 6}, "dense");
  net->make<ActivationLayer>(ActivationSpec{.kind = Activation::tanh});
  net->add<Dense>({.in_features = 6, .units = 3}, "head");
  return net;
}

/// As in MobileNets and EfficientNets.
std::shared_ptr<Sequential> norm_activations() {
  auto net = std::make_shared<Sequential>();
  int64_t channels = 3;
  for (const auto& [kind, name] :
       {std::pair(Activation::hard_swish, "1"), std::pair(Activation::silu, "2"),
        std::pair(Activation::relu6, "3")}) {
    net->add<Conv2D>({.in_channels = channels, .filters = 8, .padding = 1, .bias = false},
                     fmt::format("conv{}", name));
    net->add<BatchNorm>({.channels = 8}, fmt::format("bn{}", name));
    net->make<ActivationLayer>(ActivationSpec{.kind = kind});
    channels = 8;
  }
  return classifier(net, 8);
}

/// An inverted residual (Sandler et al. 2018, table 1) and what normalises its projection. Behind
/// relu, the second norm would make the gradient of the first one's weight nothing but rounding.
std::shared_ptr<Sequential> inverted_residual() {
  constexpr ActivationSpec f{.kind = Activation::hard_swish};
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 24, .padding = 1, .bias = false}, "expand");
  net->add<BatchNorm>({.channels = 24, .activation = f}, "bn1");
  net->add<Conv2D>({.in_channels = 24, .filters = 24, .padding = 1, .groups = 24, .bias = false},
                   "depthwise");
  net->add<BatchNorm>({.channels = 24, .activation = f}, "bn2");
  net->add<Conv2D>({.in_channels = 24, .filters = 16, .kernel = 1, .bias = false}, "project");
  net->add<BatchNorm>({.channels = 16}, "bn3");
  return classifier(net, 16);
}

std::shared_ptr<Sequential> squeeze_excite() {
  auto factors = std::make_shared<Sequential>();
  factors->make<AdaptiveAvgPool2D>(1);
  factors->add<Conv2D>({.in_channels = 8, .filters = 4, .kernel = 1}, "fc1");
  factors->make<ActivationLayer>(relu_spec);
  factors->add<Conv2D>({.in_channels = 4, .filters = 8, .kernel = 1}, "fc2");
  factors->make<ActivationLayer>(ActivationSpec{.kind = Activation::sigmoid});
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .bias = false}, "conv1");
  net->add<BatchNorm>({.channels = 8, .activation = {Activation::silu}}, "bn1");
  net->add_named("excite", std::make_shared<Multiply>(std::vector<Branches::Branch>{
                               {"", std::make_shared<Sequential>()}, {"factors", factors}}));
  return classifier(net, 8);
}

struct Row {
  const char* name;
  std::shared_ptr<Sequential> (*network)();
  Shape images;
  std::vector<Names> trained_freezings;  // in which it must train as unfused
  Names layers;                          // whose operators are listed: paths
  Names everywhere, with_kernels;        // "operator of layer", fused
  std::vector<Names> unfusing = {};      // freezings in which kernels are not used
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"norm_pool",
       stem,
       {6, 13, 12, 3},
       {{}, {"conv1"}},
       {"bn1", "pool"},
       {"batch_norm of bn1", "max_pool2d of pool"},
       {"batch_norm_max_pool2d of pool"},
       {{"bn1"}}},
      {"add_norms",
       block_with_projection,
       {6, 9, 9, 3},
       {{}, {"conv1"}, {"block.projection.conv", "conv1"}},
       {"block.projection.bn", "block.bn1", "block.bn2"},
       {"batch_norm of block.projection.bn", "batch_norm of block.bn1", "batch_norm of block.bn2"},
       {"batch_norm of block.bn1", "add_batch_norms of block.bn2"},
       {{"block.projection.bn"}, {"block.bn2"}}},
      {"norm_conv",
       inverted_residual,
       {6, 9, 9, 3},
       {{}, {"expand"}, {"bn2"}, {"project"}},
       {"bn1", "depthwise", "bn2", "project"},
       {"batch_norm of bn1", "conv2d of depthwise", "batch_norm of bn2", "conv2d of project"},
       {"batch_norm_conv2d of depthwise", "batch_norm of bn2", "conv2d of project"},
       {{"bn1", "bn2"}}},
      {"norm_excite",
       squeeze_excite,
       {4, 8, 8, 3},
       {{}, {"conv1"}, {"excite.factors.fc1"}},
       {"bn1", "excite", "excite.factors.fc2"},
       {"batch_norm of bn1", "conv2d of excite.factors.fc2", "mul of excite"},
       {"batch_norm_squeeze of excite", "conv2d of excite.factors.fc2", "excite of excite"},
       {{"bn1"}}},
      {"epilogues",
       epilogues,
       {4, 8, 8, 3},
       {{}, {"conv1"}},
       {"conv1", "pool", "bn", "dense"},
       {"conv2d_max_pool2d of conv1", "batch_norm of bn", "linear of dense"},
       {"conv2d_max_pool2d of conv1", "batch_norm of bn", "linear of dense"}},
      {"norm_activations",
       norm_activations,
       {4, 8, 8, 3},
       {{}, {"conv1"}, {"bn1", "bn2"}},
       {"bn1", "bn2", "bn3"},
       {"batch_norm of bn1", "batch_norm of bn2", "batch_norm of bn3"},
       {"batch_norm of bn1", "batch_norm of bn2", "batch_norm of bn3"}},
  };
  return all;
}

class Fused : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(, Fused, testing::ValuesIn(rows()),
                         [](const auto& row) { return row.param.name; });

std::shared_ptr<Sequential> network_of(const Row& row, bool fuse) {
  auto net = row.network();
  net->set_fuse(fuse);
  return net;
}

/// "operator of layer" for the row's layers in a pass.
template <class Pass>
Names operators_of(const Row& row, Device device, const Names& frozen, const Pass& pass,
                   std::optional<DType> compute = {}) {
  StepTraining training(network_of(row, true), row.images, device, compute, frozen);
  StepRecorder recorder;
  pass(training);
  Names names;
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.kind == TapeKind::op &&
        std::ranges::find(row.layers, entry.layer) != row.layers.end()) {
      names.push_back(entry.name + " of " + entry.layer);
    }
  }
  return names;
}

TEST_P(Fused, IsOneOperatorWhereTheDeviceHasKernels) {
  const Row& row = GetParam();
  const auto step = [](StepTraining& training) { training.step(); };
  const auto evaluate = [](StepTraining& training) { training.evaluate(); };
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.str());
    EXPECT_EQ(operators_of(row, device, {}, step),
              has_fused_kernels(device.kind) ? row.with_kernels : row.everywhere);
    EXPECT_EQ(operators_of(row, device, {}, evaluate), row.everywhere);
    for (const Names& frozen : row.unfusing) {
      EXPECT_EQ(operators_of(row, device, frozen, step), row.everywhere);
    }
  }
}

// In 16 bits also the projection behind a depthwise convolution, which computes the norm before it.
TEST(Fusion, PointwiseConvolutionsTakeNormsIn16Bits) {
  const Row& row = *std::ranges::find(rows(), std::string_view("norm_conv"), &Row::name);
  const auto step = [](StepTraining& training) { training.step(); };
  const Names both = {"batch_norm_conv2d of depthwise", "batch_norm_conv2d of project"};
  const Names last = {"batch_norm of bn1", "conv2d of depthwise", "batch_norm_conv2d of project"};
  for (const Device device : test_devices()) {
    const bool fuses = has_fused_kernels(device.kind) && cuda_gpu(device).capability >= 80;
    for (const DType dtype : test_dtypes(device)) {
      if (dtype != DType::bf16 && dtype != DType::f16) continue;
      SCOPED_TRACE(fmt::format("{} {}", device.str(), name_of(dtype)));
      EXPECT_EQ(operators_of(row, device, {}, step, dtype), fuses ? both : row.everywhere);
      EXPECT_EQ(operators_of(row, device, {"bn1"}, step, dtype), fuses ? last : row.everywhere);
      EXPECT_EQ(operators_of(row, device, {"bn1", "bn2"}, step, dtype), row.everywhere);
    }
  }
}

TEST_P(Fused, TrainsAsUnfused) {
  const Row& row = GetParam();
  expect_trains_as_unfused([&](bool fuse) { return network_of(row, fuse); }, row.images,
                           row.trained_freezings);
}

TEST_P(Fused, RepeatsBitForBit) {
  const Row& row = GetParam();
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
      const auto results = [&] {
        StepTraining training(network_of(row, true), row.images, device, compute, {});
        return after_two_steps(training);
      };
      EXPECT_EQ(results(), results());
    }
    if (gpu) set_cuda_options(device, before);
  }
}

// Instead of the normalised image: the largest elements of the windows and their positions.
TEST(Fusion, NormAndPoolingArePlannedAsTheDeviceKeepsThem) {
  const auto net = stem();
  const Shape input{6, 13, 12, 3};
  const int64_t image = 6 * 13 * 12 * 8, windows = 6 * 7 * 6 * 8;
  const auto kept = [&](std::optional<Device> device) {
    return MemoryPlan::of(*net, input, device).kept_bytes(2);
  };
  const int64_t unfused = kept({});
  EXPECT_EQ(kept(cpu_device), unfused);
  EXPECT_EQ(kept(reference_device), unfused);
  EXPECT_EQ(unfused - kept(Device{DeviceKind::cuda}), 2 * (image - windows));
  EXPECT_LT(MemoryPlan::of(*net, input, Device{DeviceKind::cuda}).training_bytes(2),
            MemoryPlan::of(*net, input).training_bytes(2));
  const std::vector<std::string> patterns = {"bn1"};
  net->freeze(patterns);
  EXPECT_EQ(kept(Device{DeviceKind::cuda}), kept({}));
}

// What the norms before the depthwise and the pointwise convolution write is not stored.
TEST(Fusion, NormsInConvolutionsArePlannedAsTheDeviceKeepsThem) {
  const auto net = inverted_residual();
  const Shape input{6, 9, 9, 3};
  const int64_t image = 6 * 9 * 9 * 24;
  const auto kept = [&](std::optional<Device> device, DType dtype) {
    return MemoryPlan::of(*net, input, device, dtype).kept_bytes(2);
  };
  const int64_t unfused = kept({}, DType::bf16);
  EXPECT_EQ(kept(cpu_device, DType::bf16), unfused);
  EXPECT_EQ(unfused - kept(Device{DeviceKind::cuda}, DType::f32), 2 * image);
  EXPECT_EQ(unfused - kept(Device{DeviceKind::cuda}, DType::bf16), 2 * 2 * image);
  EXPECT_EQ(unfused - kept(Device{DeviceKind::cuda}, DType::f16), 2 * 2 * image);
  const auto notes = [&](DType dtype) {
    return MemoryPlan::of(*net, input, Device{DeviceKind::cuda}, dtype).notes();
  };
  EXPECT_THAT(notes(DType::bf16),
              ElementsAre("bn1 into depthwise in training", "bn2 into project in training"));
  EXPECT_THAT(notes(DType::f32), ElementsAre("bn1 into depthwise in training"));
}

TEST(Fusion, NotesSayWhatTrainingFuses) {
  const auto notes = [](const Sequential& net, std::optional<Device> device) {
    return MemoryPlan::of(net, {2, 8, 8, 3}, device).notes();
  };
  const auto net = stem();
  EXPECT_THAT(notes(*net, cpu_device),
              ElementsAre("relu into bn1", "add of block into batch_norm"));
  EXPECT_THAT(notes(*net, Device{DeviceKind::cuda}),
              ElementsAre("relu into bn1", "max_pool2d into bn1 in training",
                          "add of block into batch_norm"));
  EXPECT_THAT(notes(*block_with_projection(), Device{DeviceKind::cuda}),
              ElementsAre("add of block into batch_norm",
                          "block.projection.bn into block.bn2 in training"));
  EXPECT_THAT(notes(*epilogues(), {}), ElementsAre("relu into conv1", "max_pool2d into conv1",
                                                   "relu into bn", "tanh into dense"));
  EXPECT_THAT(notes(*norm_activations(), {}),
              ElementsAre("hard_swish into bn1", "silu into bn2", "relu6 into bn3"));
  net->set_fuse(false);
  EXPECT_THAT(notes(*net, Device{DeviceKind::cuda}), ElementsAre());
  Sequential other_windows;
  other_windows.add<BatchNorm>({.channels = 3});
  other_windows.make<MaxPool2D>(Pool2dOptions{.kernel = 2, .stride = Pair(1)});
  EXPECT_THAT(notes(other_windows, Device{DeviceKind::cuda}), ElementsAre());
}

// A list that ends between two layers that would be fused.
TEST(Fusion, StaysWithinTheRange) {
  const auto net = epilogues();
  const ParameterArena arena(net->parameters(), reference_device, 5);
  const Tensor images = rand_normal({2, 8, 8, 3}, 0, 1, 1, 1).to(reference_device);
  StepRecorder recorder;
  const LayerValue convolved = net->forward_range(0, 1, {.y = images}, {.training = true});
  EXPECT_EQ(convolved.y.shape(), Shape({2, 8, 8, 8}));
  EXPECT_EQ(net->forward_range(1, 3, convolved, {.training = true}).y.shape(), Shape({2, 4, 4, 8}));
  for (const TapeEntry& entry : recorder.recording().entries)
    EXPECT_NE(entry.name, "conv2d_max_pool2d");
}

}  // namespace
}  // namespace whisker::test
