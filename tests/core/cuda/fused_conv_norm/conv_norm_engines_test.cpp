// cuDNN has plans for convolutions with parts of batch norms in them, asked with descriptions of
// GPUs: no GPU needed. What it lacks is printed.
#include "core/cuda/convolution/cudnn/cudnn_convolution.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "described_gpus.h"
#include "layers/builder/model_builder.h"
#include "layers/conv2d.h"
#include "layers/memory_plan.h"

#include <cstdio>
#include <map>
#include <string_view>

#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

/// A plan within the workspace that the backend grants by default.
bool has_algorithm(const cudnn::Target& target, const ConvolutionRequest& request) {
  const auto graph = convolution_graph(target, request);
  if (!graph) return false;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine : convolution_engines(*graph, request, heuristic, false)) {
      const auto algorithm = CudnnConvolution::make(graph, request, engine);
      if (algorithm && algorithm->workspace_bytes() <= CudaOptions().workspace_limit) return true;
    }
  }
  return false;
}

/// The distinct convolutions of a residual network for images of 224, without the first one.
std::map<std::string, Conv2dGeometry> convolutions_of(const char* preset, int64_t batch,
                                                      DType dtype) {
  const Shape input{batch, 224, 224, 3};
  const Model model = build_model(YamlNode::parse(preset, "test"), {.input = input, .classes = 2});
  const MemoryPlan plan = MemoryPlan::of(*model.net, input);
  std::map<std::string, Conv2dGeometry> found;
  for (const PlannedOperator& planned : plan.operators()) {
    const auto* layer = dynamic_cast<const Conv2D*>(planned.layer);
    if (!layer || layer->options().in_channels < 8) continue;
    const Conv2dGeometry g = conv2d_geometry(
        plan.shape(planned.inputs[0]), layer->weight()->shape(), false,
        {.stride = layer->options().stride, .padding = layer->options().padding}, dtype);
    found.emplace(ConvolutionRequest{.geometry = g}.describe(), g);
  }
  return found;
}

/// A convolution with the sums of its result, then the three passes behind a batch_norm, and the
/// one behind a block's end.
std::vector<ConvolutionRequest> requests_of(const Conv2dGeometry& g) {
  return {
      {.pass = ConvolutionPass::forward, .geometry = g, .sums = true},
      {.pass = ConvolutionPass::forward, .geometry = g, .sums = true, .normalised = true},
      {.pass = ConvolutionPass::backward_weights, .geometry = g, .normalised = true},
      {.pass = ConvolutionPass::backward_input, .geometry = g, .normalised = true},
      {.pass = ConvolutionPass::backward_input, .geometry = g, .normalised = true, .added = true},
  };
}

using ConvNormEngines = test::OnDescribedGpu;

INSTANTIATE_TEST_SUITE_P(, ConvNormEngines, ::testing::ValuesIn(test::described_gpus),
                         [](const auto& gpu) { return std::string(gpu.param.name); });

// Compute capability 9.0 is what the fused kernels are for. What others have depends on cuDNN's
// version.
TEST_P(ConvNormEngines, ExistForResidualNetworksInF16) {
  const bool needed = GetParam().name == std::string_view("H200");
  const std::vector<const char*> networks =
      needed ? std::vector{"resnet18", "resnet50"} : std::vector{"resnet18"};
  for (const char* preset : networks) {
    const auto geometries = convolutions_of(preset, 256, DType::f16);
    EXPECT_GE(geometries.size(), 10u) << preset;
    for (const auto& [name, g] : geometries) {
      for (const ConvolutionRequest& request : requests_of(g)) {
        if (has_algorithm(target(), request)) continue;
        // No gradient of a convolution that strides goes through a residual add.
        EXPECT_FALSE(needed && !(request.added && g.stride_h > 1)) << request.describe();
        std::printf("%s has no plan for %s\n", GetParam().name, request.describe().c_str());
      }
    }
  }
}

TEST_P(ConvNormEngines, AreRefusedWhereCudnnHasNone) {
  const auto bf16 = convolutions_of("resnet18", 256, DType::bf16);
  for (const ConvolutionRequest& request : requests_of(bf16.begin()->second)) {
    EXPECT_FALSE(convolution_graph(target(), request)) << request.describe();
  }
  const Conv2dGeometry few_channels = conv2d_geometry({256, 224, 224, 3}, {64, 7, 7, 3}, false,
                                                      {.stride = 2, .padding = 3}, DType::f16);
  Conv2dGeometry grouped = conv2d_geometry({8, 14, 14, 32}, {32, 3, 3, 16}, false,
                                           {.padding = 1, .groups = 2}, DType::f16);
  Conv2dGeometry biased = conv2d_geometry({8, 14, 14, 32}, {32, 3, 3, 32}, true, {}, DType::f16);
  for (const Conv2dGeometry& g : {few_channels, grouped, biased}) {
    for (const ConvolutionRequest& request : requests_of(g)) {
      EXPECT_FALSE(convolution_graph(target(), request)) << request.describe();
    }
  }
}

TEST(ConvNormRequests, DifferInWordsAndHash) {
  const Conv2dGeometry g =
      conv2d_geometry({8, 14, 14, 32}, {32, 3, 3, 32}, false, {.padding = 1}, DType::f16);
  std::map<std::string, size_t> hashes;
  const ConvolutionRequest plain{.geometry = g};
  hashes.emplace(plain.describe(), RequestHash()(plain));
  for (const ConvolutionRequest& request : requests_of(g)) {
    EXPECT_TRUE(hashes.emplace(request.describe(), RequestHash()(request)).second)
        << request.describe();
    EXPECT_NE(RequestHash()(request), RequestHash()(plain));
  }
  EXPECT_EQ(requests_of(g)[0].plain(), plain);
}

}  // namespace
}  // namespace whisker::cuda
