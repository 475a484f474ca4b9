// cuDNN has engines for attention and compiles them, asked with descriptions of GPUs and with a
// driver that takes any kernel: no GPU needed.
#include "core/cuda/attention/cudnn_attention.h"
#include "tests/core/cuda/described_gpus.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

constexpr AttentionPass passes[] = {AttentionPass::forward, AttentionPass::backward};

AttentionGeometry geometry(int64_t batch, int64_t tokens, int64_t heads, int64_t head_size) {
  return {.batch = batch,
          .tokens = tokens,
          .heads = heads,
          .head_size = head_size,
          .bias = false,
          .bias_stride = {},
          .dropout = 0,
          .key = {},
          .dtype = DType::bf16};
}

AttentionGeometry with_bias(AttentionGeometry g, bool of_batch, bool of_heads) {
  const int64_t scores = g.tokens * g.tokens;
  g.bias = true;
  g.bias_stride = {of_batch ? (of_heads ? g.heads : 1) * scores : 0, of_heads ? scores : 0,
                   g.tokens, 1};
  return g;
}

class AttentionEngines : public test::OnDescribedGpu {
 public:
  static void SetUpTestSuite() {
    OnDescribedGpu::SetUpTestSuite();
    // cuDNN opens libcuda.so.1, and finds it open under that name.
    ASSERT_TRUE(dlopen(WHISKER_FAKE_KERNEL_DRIVER, RTLD_NOW)) << dlerror();
  }

 protected:
  void expect_engines(const AttentionGeometry& g) {
    const size_t cudnn = cudnnGetVersion();
    if (cudnn < least_cudnn_for_attention) GTEST_SKIP() << "an older cuDNN: " << cudnn;
    for (const AttentionPass pass : passes) {
      for (const bool deterministic : {false, true}) {
        const AttentionSite site{
            .capability = GetParam().capability, .cudnn = cudnn, .deterministic = deterministic};
        if (!is_for_cudnn(g, pass, site)) continue;
        SCOPED_TRACE(fmt::format("{} {} tokens {} heads of {}{}{}", name_of(g.dtype), g.tokens,
                                 g.heads, g.head_size,
                                 pass == AttentionPass::forward ? " forward" : " backward",
                                 deterministic ? " deterministic" : ""));
        const auto compiled = CudnnAttention::make(target(), g, pass, deterministic);
        ASSERT_TRUE(compiled);
        // f32 sums of dq and of the rows, which may exist twice; in a deterministic pass p in
        // tiles.
        const int64_t rows = g.batch * g.heads * g.tokens, tiled = (g.tokens + 255) / 256 * 256;
        const int64_t most = deterministic ? g.batch * g.heads * tiled * tiled * 2 + rows * 8
                                           : rows * (g.head_size + 1) * 8;
        EXPECT_LE(compiled->workspace_bytes(), most + 4096);
      }
    }
  }
};

std::string name_of(const ::testing::TestParamInfo<test::DescribedGpu>& gpu) {
  return gpu.param.name;
}

INSTANTIATE_TEST_SUITE_P(, AttentionEngines, ::testing::ValuesIn(test::described_gpus), name_of);
INSTANTIATE_TEST_SUITE_P(Further, AttentionEngines, ::testing::ValuesIn(test::further_gpus),
                         name_of);

TEST_P(AttentionEngines, ExistForPresets) {
  expect_engines(geometry(128, 197, 6, 64));  // vit_s_16
  AttentionGeometry vit_b_16 = geometry(64, 197, 12, 64);
  vit_b_16.dtype = DType::f16;
  expect_engines(vit_b_16);
}

class AttentionEnginesOfOneGpu : public AttentionEngines {};  // compiling takes long

INSTANTIATE_TEST_SUITE_P(, AttentionEnginesOfOneGpu, ::testing::Values(test::described_gpus[0]),
                         name_of);

TEST_P(AttentionEnginesOfOneGpu, ExistForOtherHeadsAndBiases) {
  for (const int64_t head_size : {8, 96, 128}) expect_engines(geometry(2, 5, 3, head_size));
  expect_engines(geometry(1, 1000, 1, 32));
  expect_engines(with_bias(geometry(2, 130, 3, 64), false, false));
  expect_engines(with_bias(geometry(2, 5, 3, 32), true, true));
}

TEST(AttentionForCudnn, IsWhatItComputesRight) {
  const AttentionSite h200{.capability = 90, .cudnn = 91900};
  const auto taken = [](const AttentionGeometry& g, const AttentionSite& site) {
    return std::pair(is_for_cudnn(g, AttentionPass::forward, site),
                     is_for_cudnn(g, AttentionPass::backward, site));
  };
  constexpr std::pair both(true, true), forward(true, false), neither(false, false);
  const AttentionGeometry usual = geometry(2, 197, 3, 64);
  EXPECT_EQ(taken(usual, h200), both);
  EXPECT_EQ(taken(usual, {.capability = 80, .cudnn = 91600}), both);
  EXPECT_EQ(taken(usual, {.capability = 75, .cudnn = 91900}), neither);
  EXPECT_EQ(taken(usual, {.capability = 90, .cudnn = 91500}), neither);
  EXPECT_EQ(taken(usual, {.capability = 90, .cudnn = 91900, .deterministic = true}), both);
  EXPECT_EQ(taken(usual, {.capability = 100, .cudnn = 91900, .deterministic = true}), forward);
  for (const DType dtype : {DType::f32, DType::f64}) {
    AttentionGeometry g = usual;
    g.dtype = dtype;
    EXPECT_EQ(taken(g, h200), neither) << name_of(dtype);
  }
  AttentionGeometry dropped = usual;
  dropped.dropout = 0.1;
  EXPECT_EQ(taken(dropped, h200), neither);
  EXPECT_EQ(taken(geometry(2, 197, 3, 12), h200), neither);
  EXPECT_EQ(taken(geometry(2, 197, 3, 136), h200), neither);
  EXPECT_EQ(taken(geometry(2, 1, 3, 64), h200), neither);
  for (const int64_t tokens : {64, 192, 320}) {
    EXPECT_EQ(taken(geometry(2, tokens, 3, 64), h200), forward) << tokens;
  }
  EXPECT_EQ(taken(geometry(2, 128, 3, 64), h200), both);
  AttentionGeometry biased = with_bias(usual, false, true);
  EXPECT_EQ(taken(biased, h200), both);
  biased.bias_stride[2] = 0;
  EXPECT_EQ(taken(biased, h200), neither);
}

}  // namespace
}  // namespace whisker::cuda
