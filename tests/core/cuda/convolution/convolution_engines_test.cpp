// cuDNN has engines for what we ask of it, asked with descriptions of GPUs: no GPU needed. Covers
// presets with every kind of convolution and the corners of the operator table.
#include "core/cuda/convolution/cudnn/cudnn_convolution.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "layers/builder/model_builder.h"
#include "layers/builder/presets.h"
#include "layers/conv2d.h"
#include "layers/memory_plan.h"
#include "tests/core/cases/convolution_cases.h"
#include "tests/core/cuda/described_gpus.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr ConvolutionPass passes[] = {ConvolutionPass::forward, ConvolutionPass::backward_input,
                                      ConvolutionPass::backward_weights};

/// One pass of `g` in `dtype`; the epilogue belongs to the forward pass.
ConvolutionRequest request_of(ConvolutionPass pass, Conv2dGeometry g, DType dtype) {
  g.dtype = dtype;
  if (pass != ConvolutionPass::forward) {
    g.bias = false;
    g.activation = {};
  }
  return {.pass = pass, .geometry = g};
}

/// The first proposed engine that makes a plan within the workspace that the backend grants by
/// default, deterministic and without tf32.
ConvolutionAlgorithmPointer first_engine(const cudnn::Target& target,
                                         const ConvolutionRequest& request) {
  const auto graph = convolution_graph(target, request);
  if (!graph) return nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine : cudnn::proposals(*graph, heuristic)) {
      auto algorithm = cudnn_convolution(graph, request, engine, true);
      const int64_t limit = CudaOptions().workspace_limit;
      if (algorithm && algorithm->workspace_bytes() <= limit) return algorithm;
    }
  }
  return nullptr;
}

class ConvolutionEngines : public test::OnDescribedGpu {
 protected:
  void expect_engines(const Conv2dGeometry& g) {
    for (const DType dtype : dtypes) {
      if (dtype == DType::bf16 && !GetParam().has_bf16_and_tf32()) continue;
      for (const ConvolutionPass pass : passes) {
        const ConvolutionRequest request = request_of(pass, g, dtype);
        EXPECT_TRUE(first_engine(target(), request)) << request.describe();
      }
    }
  }
};

std::string name_of(const ::testing::TestParamInfo<test::DescribedGpu>& gpu) {
  return gpu.param.name;
}

INSTANTIATE_TEST_SUITE_P(, ConvolutionEngines, ::testing::ValuesIn(test::described_gpus), name_of);
INSTANTIATE_TEST_SUITE_P(Further, ConvolutionEngines, ::testing::ValuesIn(test::further_gpus),
                         name_of);

/// The distinct convolutions of a preset for a batch of images.
std::vector<Conv2dGeometry> convolutions_of(const Preset& preset, const Shape& input) {
  const Model model =
      build_model(YamlNode::parse(preset.name, "test"), {.input = input, .classes = 2});
  const MemoryPlan plan = MemoryPlan::of(*model.net, input);
  std::vector<Conv2dGeometry> found;
  std::set<std::string> seen;
  for (const PlannedOperator& planned : plan.operators()) {
    const auto* layer = dynamic_cast<const Conv2D*>(planned.layer);
    if (!layer) continue;
    const Conv2D::Options& o = layer->options();
    const Conv2dGeometry g =
        conv2d_geometry(plan.shape(planned.inputs[0]), layer->weight()->shape(), o.bias,
                        {.stride = o.stride,
                         .padding = o.padding,
                         .padding_mode = o.padding_mode,
                         .dilation = o.dilation,
                         .groups = o.groups,
                         .activation = o.activation},
                        DType::f32);
    if (seen.insert(ConvolutionRequest{.geometry = g}.describe()).second) found.push_back(g);
  }
  return found;
}

// The other presets repeat these kinds of convolutions with other numbers of channels.
constexpr const char* one_of_each_kind[] = {
    "keras_small", "chollet",       "small_resnet",       "resnet18",       "resnet50",
    "vgg16",       "squeezenet1_1", "mobilenet_v3_small", "regnet_y_400mf", "convnext_tiny"};

TEST_P(ConvolutionEngines, ExistForPresets) {
  for (const char* name : one_of_each_kind) {
    SCOPED_TRACE(name);
    const auto geometries = convolutions_of(*find_preset(name), {64, 128, 128, 3});
    EXPECT_FALSE(geometries.empty());
    for (const Conv2dGeometry& g : geometries) expect_engines(g);
  }
}

// The ends of residual blocks where the norm is part of the convolution: see layers/fusion.h.
TEST_P(ConvolutionEngines, AddResidualsInHalfPrecision) {
  const std::pair<Shape, Shape> blocks[] = {{{8, 56, 56, 64}, {256, 1, 1, 64}},
                                            {{8, 7, 7, 512}, {2048, 1, 1, 512}},
                                            {{1, 28, 28, 128}, {128, 3, 3, 128}}};
  const DType dtype = GetParam().has_bf16_and_tf32() ? DType::bf16 : DType::f16;
  for (const auto& [x, w] : blocks) {
    for (const Activation f : {Activation::none, Activation::relu}) {
      const Conv2dOptions options{.padding = w[1] / 2, .activation = {f}};
      ConvolutionRequest request =
          request_of(ConvolutionPass::forward, conv2d_geometry(x, w, true, options, dtype), dtype);
      const std::string plain = request.describe();
      request.residual = true;
      EXPECT_NE(request.describe(), plain);
      EXPECT_TRUE(first_engine(target(), request)) << request.describe();
    }
  }
}

TEST_P(ConvolutionEngines, ExistForOddGeometries) {
  // Few and odd channels, padding that differs by side, dilation, groups: each once, as a case
  // takes long.
  const std::set<std::string_view> odd = {
      "one_element",      "3x3_pad_1", "relu",      "same_even_kernel",
      "dilation_2",       "groups_2",  "depthwise", "groups_dilation_stride",
      "16_to_17_channels"};
  size_t found = 0;
  for (const test::SmallConvolution& c : test::small_convolutions()) {
    if (!odd.contains(c.name)) continue;
    ++found;
    SCOPED_TRACE(c.name);
    expect_engines(conv2d_geometry(c.x, c.w, c.has_bias(), c.options, DType::f32));
  }
  EXPECT_EQ(found, odd.size());
}

TEST_P(ConvolutionEngines, RepeatFromTheirText) {
  const DType dtype = GetParam().has_bf16_and_tf32() ? DType::bf16 : DType::f16;
  const ConvolutionRequest request = request_of(
      ConvolutionPass::forward,
      conv2d_geometry({32, 30, 30, 64}, {128, 3, 3, 64}, true, {.padding = 1}, dtype), dtype);
  const auto graph = convolution_graph(target(), request);
  ASSERT_TRUE(graph);
  int compiled = 0;
  for (const auto& engine : cudnn::proposals(*graph, CUDNN_HEUR_MODE_A)) {
    const auto again = cudnn::EngineChoice::parse(engine.text());
    ASSERT_TRUE(again) << engine.text();
    EXPECT_EQ(*again, engine);
    const auto algorithm = cudnn_convolution(graph, request, *again, true);
    if (!algorithm) continue;
    ++compiled;
    EXPECT_EQ(algorithm->name(), engine.text());
  }
  EXPECT_GT(compiled, 1);
}

TEST_P(ConvolutionEngines, RefuseWhatTheyAreNot) {
  const ConvolutionRequest request =
      request_of(ConvolutionPass::forward,
                 conv2d_geometry({2, 8, 8, 8}, {8, 3, 3, 8}, false, {}, DType::f32), DType::f32);
  const auto graph = convolution_graph(target(), request);
  ASSERT_TRUE(graph);
  const auto made = [&](const cudnn::EngineChoice& engine) {
    return cudnn_convolution(graph, request, engine, false) != nullptr;
  };
  EXPECT_FALSE(made({.engine = 999999, .knobs = {}}));
  EXPECT_FALSE(made({.engine = -1, .knobs = {}}));
  EXPECT_FALSE(made({.engine = 0, .knobs = {{2, 1 << 20}}}));
  EXPECT_FALSE(made({.engine = 0, .knobs = {{4000, 0}}}));
}

TEST_P(ConvolutionEngines, HaveTensorCoresOnlyWhereAllowed) {
  ConvolutionRequest request = request_of(
      ConvolutionPass::forward,
      conv2d_geometry({32, 30, 30, 64}, {128, 3, 3, 64}, false, {.padding = 1}, DType::f32),
      DType::f32);
  const auto graph = convolution_graph(target(), request);
  ASSERT_TRUE(graph);
  bool strict = false, only_rounded = false;
  for (const auto& engine : cudnn::proposals(*graph, CUDNN_HEUR_MODE_A)) {
    if (strict && only_rounded) break;
    request.tf32 = false;
    const bool exact = cudnn_convolution(graph, request, engine, false) != nullptr;
    request.tf32 = true;
    strict |= exact;
    only_rounded |= !exact && cudnn_convolution(graph, request, engine, false);
  }
  EXPECT_TRUE(strict);
  EXPECT_EQ(only_rounded, GetParam().has_bf16_and_tf32());
}

TEST(EngineChoice, TextOfAnotherForm) {
  for (const char* text : {"", "engine", "engine x", "engine 1 knobs", "engine 1 knobs 2",
                           "engine 1 knobs 2:", "engine 1 2:3", "engine 1 knobs 2:3x", "direct",
                           "engine 99999999999999999999"}) {
    EXPECT_FALSE(cudnn::EngineChoice::parse(text)) << text;
  }
  const auto plain = cudnn::EngineChoice::parse("engine 7");
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, (cudnn::EngineChoice{.engine = 7, .knobs = {}}));
}

TEST(CudnnErrors, NameTheCall) {
  try {
    cudnn::device_properties("no JSON");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_NE(std::string(error.what()).find("cuDNN: cudnnBackend"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace whisker::cuda
