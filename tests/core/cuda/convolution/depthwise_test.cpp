// The depthwise kernels as GPUs with other numbers of multiprocessors, less shared memory or no
// tensor cores divide the work, on the one at hand, against plain loops. Whole numbers, so that no
// order of adding shows.
#include "core/backend/backend.h"
#include "core/cuda/convolution/convolution.h"
#include "whole_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <cuda_runtime.h>

namespace whisker::test {
namespace {

using namespace cuda;
using Numbers = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct DepthwiseCase {
  int64_t n, h, w, c, window, stride;
  int64_t top, bottom, left, right;  // padding

  Conv2dGeometry geometry() const {
    Conv2dGeometry g;
    g.n = n, g.h = h, g.w = w, g.c = g.c_out = g.groups = c;
    g.kernel_h = g.kernel_w = window;
    g.stride_h = g.stride_w = stride;
    g.pad_top = top, g.pad_bottom = bottom, g.pad_left = left, g.pad_right = right;
    g.h_out = (h + top + bottom - window) / stride + 1;
    g.w_out = (w + left + right - window) / stride + 1;
    return g;
  }
};

// Strips that end inside and at the edge, one to three chunks of channels, maps smaller than the
// window, padding that differs by side, an odd row or column of dx without a pair, bands.
constexpr DepthwiseCase depthwise_cases[] = {
    {3, 9, 13, 16, 3, 1, 1, 1, 1, 1}, {2, 8, 7, 136, 3, 1, 0, 1, 2, 0},
    {2, 13, 9, 40, 5, 1, 2, 2, 2, 2}, {3, 6, 11, 72, 5, 1, 4, 0, 1, 3},
    {5, 7, 7, 24, 7, 1, 3, 3, 3, 3},  {2, 2, 3, 16, 7, 1, 3, 4, 4, 3},
    {2, 9, 12, 72, 3, 2, 1, 1, 1, 1}, {3, 12, 9, 16, 3, 2, 0, 1, 0, 1},
    {2, 11, 10, 8, 5, 2, 1, 2, 2, 1}, {2, 7, 8, 136, 5, 2, 2, 2, 2, 2},
    {2, 13, 6, 24, 7, 2, 2, 3, 3, 2}, {9, 4, 5, 16, 7, 2, 3, 3, 3, 3}};

// For tensor cores: pairs of images with and without a second one, several of them in a tile, rows
// of several strips, packs of channels that divide a block's warps in each way, padding beyond the
// window.
constexpr DepthwiseCase tensor_core_cases[] = {
    {13, 7, 7, 40, 5, 1, 2, 2, 2, 2},  {3, 14, 14, 72, 5, 1, 2, 2, 2, 2},
    {4, 14, 14, 8, 3, 1, 1, 1, 1, 1},  {1, 5, 131, 32, 3, 1, 1, 1, 1, 1},
    {2, 5, 70, 32, 7, 1, 3, 3, 3, 3},  {3, 9, 57, 16, 5, 1, 0, 0, 2, 2},
    {1, 7, 131, 32, 3, 2, 1, 1, 1, 1}, {5, 14, 14, 104, 5, 2, 2, 2, 2, 2},
    {2, 6, 5, 16, 3, 1, 1, 4, 4, 1},   {7, 7, 7, 1152, 3, 1, 1, 1, 1, 1}};

/// Calls fn(x's index, y's index, w's index) for each product of the convolution.
template <class Fn>
void for_each_product(const Conv2dGeometry& g, const Fn& fn) {
  for (int64_t at = 0; at < g.n * g.h_out * g.w_out; ++at) {
    const int64_t j = at % g.w_out, i = at / g.w_out % g.h_out, n = at / (g.w_out * g.h_out);
    for (int64_t tap = 0; tap < g.kernel_h * g.kernel_w; ++tap) {
      const int64_t row = i * g.stride_h - g.pad_top + tap / g.kernel_w;
      const int64_t column = j * g.stride_w - g.pad_left + tap % g.kernel_w;
      if (row < 0 || row >= g.h || column < 0 || column >= g.w) continue;
      for (int64_t c = 0; c < g.c; ++c) {
        fn(static_cast<size_t>(((n * g.h + row) * g.w + column) * g.c + c),
           static_cast<size_t>(at * g.c + c),
           static_cast<size_t>(c * g.kernel_h * g.kernel_w + tap));
      }
    }
  }
}

struct DepthwiseOperands {
  Numbers x, w, y;  // y is dy in the gradients' passes
};

DepthwiseOperands operands_of(const Conv2dGeometry& g) {
  return {whole_numbers({g.n, g.h, g.w, g.c}, 0).to_vector(),
          whole_numbers({g.c, g.kernel_h, g.kernel_w, 1}, 1).to_vector(),
          whole_numbers({g.n, g.h_out, g.w_out, g.c}, 2).to_vector()};
}

Numbers expected_result(ConvolutionPass pass, const Conv2dGeometry& g,
                        const DepthwiseOperands& in) {
  Numbers result(pass == ConvolutionPass::forward          ? in.y.size()
                 : pass == ConvolutionPass::backward_input ? in.x.size()
                                                           : in.w.size());
  for_each_product(g, [&](size_t x, size_t y, size_t w) {
    if (pass == ConvolutionPass::forward) result[y] += in.x[x] * in.w[w];
    if (pass == ConvolutionPass::backward_input) result[x] += in.y[y] * in.w[w];
    if (pass == ConvolutionPass::backward_weights) result[w] += in.x[x] * in.y[y];
  });
  return result;
}

/// What the kernels write, into memory full of NaN.
Numbers depthwise_result(ConvolutionPass pass, Conv2dGeometry g, const DepthwiseOperands& in,
                         DType dtype, const KernelSite& site) {
  g.dtype = dtype;
  const auto algorithm = depthwise_convolution({.pass = pass, .geometry = g}, site);
  if (!algorithm) return {};
  const auto on_gpu = [&](const Numbers& values, const Shape& shape) {
    return from_vector(values, shape).to(dtype).to(gpu);
  };
  const Tensor x = on_gpu(in.x, {g.n, g.h, g.w, g.c});
  const Tensor w = on_gpu(in.w, {g.c, g.kernel_h, g.kernel_w, 1});
  const Tensor y = on_gpu(in.y, {g.n, g.h_out, g.w_out, g.c});
  const Tensor workspace = empty({std::max<int64_t>(1, algorithm->workspace_bytes())},
                                 {.dtype = DType::u8, .device = gpu});
  const Tensor& written = pass == ConvolutionPass::forward          ? y
                          : pass == ConvolutionPass::backward_input ? x
                                                                    : w;
  backend_of(gpu).synchronize();
  for (const Tensor& t : {written, workspace}) {
    EXPECT_EQ(cudaMemsetAsync(t.raw(), 0xff, static_cast<size_t>(t.bytes()), site.stream),
              cudaSuccess);
  }
  algorithm->run(site, {.x = x.raw(), .w = w.raw(), .y = y.raw()}, workspace.raw());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return written.to_vector();
}

class CudaDepthwise : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) backend_of(gpu).set_memory_options({});  // filled with NaN instead
  }
};

/// Every type on every site.
void expect_whole_numbers(ConvolutionPass pass, const DepthwiseCase& s,
                          const std::vector<KernelSite>& sites) {
  const Conv2dGeometry g = s.geometry();
  const DepthwiseOperands in = operands_of(g);
  const Numbers expected = expected_result(pass, g, in);
  for (const DType dtype : dtypes) {
    for (const KernelSite& site : sites) {
      EXPECT_EQ(depthwise_result(pass, g, in, dtype, site), expected) << fmt::format(
          "{} {} of ({},{},{},{}), window {}, stride {}, {} multiprocessors of capability {}, {} "
          "bytes of shared memory",
          name_of(pass), dtype, s.n, s.h, s.w, s.c, s.window, s.stride, site.multiprocessors,
          site.capability, site.shared_bytes);
    }
  }
}

TEST_F(CudaDepthwise, ComputesTheSameOnAnyNumberOfMultiprocessors) {
  const std::vector<KernelSite> sites{
      {.multiprocessors = 1}, {.multiprocessors = 2}, {.multiprocessors = 132}};
  for (const DepthwiseCase& s : depthwise_cases) {
    for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::backward_input,
                                       ConvolutionPass::backward_weights}) {
      expect_whole_numbers(pass, s, sites);
    }
  }
}

TEST_F(CudaDepthwise, WeightGradientsOnTensorCoresAreExact) {
  cudaDeviceProp here{};
  ASSERT_EQ(cudaGetDeviceProperties(&here, gpu.index), cudaSuccess);
  const int capability = here.major * 10 + here.minor;
  if (capability < 80) GTEST_SKIP() << "skipped: needs compute capability 8.0";
  std::vector<KernelSite> sites;
  for (const size_t bytes : {here.sharedMemPerBlockOptin, size_t{24} * 1024}) {  // narrow tiles
    for (const int multiprocessors : {1, 2, 132}) {
      sites.push_back({.multiprocessors = multiprocessors,
                       .capability = capability,
                       .shared_bytes = bytes,
                       .multiprocessor_bytes = here.sharedMemPerMultiprocessor});
    }
  }
  constexpr ConvolutionPass pass = ConvolutionPass::backward_weights;
  for (const DepthwiseCase& s : depthwise_cases) expect_whole_numbers(pass, s, sites);
  for (const DepthwiseCase& s : tensor_core_cases) expect_whole_numbers(pass, s, sites);
}

/// What the passes write that are fused with relu of a norm that changes nothing, (C) sums in f64.
struct FusedResult {
  Numbers written;        // y, or the gradient of the norm's x
  Numbers first, second;  // sums of y and of its squares, or the gradients of beta and gamma
};

FusedResult fused_result(ConvolutionPass pass, Conv2dGeometry g, const DepthwiseOperands& in,
                         DType dtype, int multiprocessors) {
  g.dtype = dtype;
  const bool forward = pass == ConvolutionPass::forward;
  const KernelSite site{.multiprocessors = multiprocessors};
  const auto algorithm = depthwise_convolution(
      {.pass = pass, .geometry = g, .sums = forward, .normalised = true}, site);
  if (!algorithm) return {};
  const auto on_gpu = [&](const Numbers& values, const Shape& shape) {
    return from_vector(values, shape).to(dtype).to(gpu);
  };
  const Tensor x = on_gpu(in.x, {g.n, g.h, g.w, g.c});
  const Tensor w = on_gpu(in.w, {g.c, g.kernel_h, g.kernel_w, 1});
  const Tensor y = on_gpu(in.y, {g.n, g.h_out, g.w_out, g.c});
  const Tensor dx = empty_like(x), factors = empty({4, g.c}, {.device = gpu});
  const Tensor zero = zeros({g.c}, {.device = gpu}), one = ones({g.c}, {.device = gpu});
  const Tensor workspace =
      empty({algorithm->workspace_bytes()}, {.dtype = DType::u8, .device = gpu});
  const Tensor& written = forward ? y : dx;
  backend_of(gpu).synchronize();
  for (const Tensor& t : {written, workspace, factors}) {
    EXPECT_EQ(cudaMemsetAsync(t.raw(), 0xff, static_cast<size_t>(t.bytes()), site.stream),
              cudaSuccess);
  }
  float* const of_channels = static_cast<float*>(factors.raw());
  const auto* const zeros_of_channels = static_cast<const float*>(zero.raw());
  const auto* const ones_of_channels = static_cast<const float*>(one.raw());
  algorithm->run(site,
                 {.x = forward ? x.raw() : dx.raw(),
                  .w = w.raw(),
                  .y = y.raw(),
                  .sums = of_channels,
                  .norm = {.mean = zeros_of_channels,
                           .inv_std = ones_of_channels,
                           .gamma = ones_of_channels,
                           .beta = zeros_of_channels,
                           .activation = {Activation::relu}},
                  .norm_gradients = {.x = x.raw(),
                                     .dgamma = of_channels + g.c,
                                     .dbeta = of_channels,
                                     .slope = of_channels + 2 * g.c,
                                     .shift = of_channels + 3 * g.c}},
                 workspace.raw());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Numbers all = factors.to_vector();
  const auto row = [&](int64_t i) {
    return Numbers(all.begin() + i * g.c, all.begin() + (i + 1) * g.c);
  };
  FusedResult result{written.to_vector(), row(0), row(1)};
  if (!forward) return result;
  const auto count = static_cast<double>(g.n * g.h_out * g.w_out);
  const Numbers shift = row(2);
  for (size_t c = 0; c < shift.size(); ++c) {  // to sums without a shift
    result.second[c] += shift[c] * (2 * result.first[c] + count * shift[c]);
    result.first[c] += count * shift[c];
  }
  return result;
}

// The numbers are whole, so f64 adds them exactly; the shift's remainders are rounded to f32. The
// gradient is left as dz.
TEST_F(CudaDepthwise, AddsUpForNormsOnAnyNumberOfMultiprocessors) {
  for (const DepthwiseCase& s : depthwise_cases) {
    const Conv2dGeometry g = s.geometry();
    const DepthwiseOperands in = operands_of(g);
    DepthwiseOperands clipped = in;
    for (double& x : clipped.x) x = std::max(x, 0.0);
    const auto channels = static_cast<size_t>(g.c);
    Numbers y = expected_result(ConvolutionPass::forward, g, clipped);
    Numbers dz = expected_result(ConvolutionPass::backward_input, g, in);
    FusedResult forward{y, Numbers(channels), Numbers(channels)};
    FusedResult backward{dz, Numbers(channels), Numbers(channels)};
    for (size_t i = 0; i < y.size(); ++i) {
      forward.first[i % channels] += y[i];
      forward.second[i % channels] += y[i] * y[i];
    }
    for (size_t i = 0; i < dz.size(); ++i) {
      if (in.x[i] <= 0) backward.written[i] = 0;
      backward.first[i % channels] += backward.written[i];
      backward.second[i % channels] += backward.written[i] * in.x[i];
    }
    for (const DType dtype : dtypes) {
      for (const int multiprocessors : {1, 2, 132}) {
        SCOPED_TRACE(fmt::format("{} ({},{},{},{}), window {}, stride {}, {} multiprocessors",
                                 dtype, s.n, s.h, s.w, s.c, s.window, s.stride, multiprocessors));
        const FusedResult f = fused_result(ConvolutionPass::forward, g, in, dtype, multiprocessors);
        EXPECT_EQ(f.written, forward.written);
        EXPECT_TRUE(close(f.first, forward.first, 1e-5, 1));
        EXPECT_TRUE(close(f.second, forward.second, 1e-5, 1));
        const FusedResult b =
            fused_result(ConvolutionPass::backward_input, g, in, dtype, multiprocessors);
        EXPECT_TRUE(close(b.written, backward.written, tolerance(dtype, 1), 1));
        EXPECT_EQ(b.first, backward.first);
        EXPECT_EQ(b.second, backward.second);
      }
    }
  }
}

// The last column of x meets one column of dy and one tap; five columns of dy leave three of a
// strip's four empty.
TEST_F(CudaDepthwise, ANaNReachesOnlyTheTapsThatItMeets) {
  const Conv2dGeometry g = DepthwiseCase{1, 6, 7, 8, 3, 1, 0, 0, 0, 0}.geometry();
  DepthwiseOperands in = operands_of(g);
  in.x[static_cast<size_t>(6 * g.c)] = nan;  // row 0, column 6, channel 0
  const Numbers dw = depthwise_result(ConvolutionPass::backward_weights, g, in, DType::f32,
                                      {.multiprocessors = 132});
  ASSERT_EQ(dw.size(), in.w.size());
  for (size_t i = 0; i < dw.size(); ++i) EXPECT_EQ(std::isnan(dw[i]), i == 2) << i;
}

TEST(Depthwise, RefusesWhatThereIsNoKernelFor) {
  const auto algorithm = [](const DepthwiseCase& s, DType dtype) {
    Conv2dGeometry g = s.geometry();
    g.dtype = dtype;
    return depthwise_convolution({.geometry = g}, {});
  };
  EXPECT_NE(algorithm({1, 6, 6, 4, 3, 1, 1, 1, 1, 1}, DType::f32), nullptr);
  EXPECT_EQ(algorithm({1, 6, 6, 4, 3, 1, 1, 1, 1, 1}, DType::bf16), nullptr);
  EXPECT_EQ(algorithm({1, 6, 6, 8, 3, 3, 1, 1, 1, 1}, DType::bf16), nullptr);
  EXPECT_EQ(algorithm({1, 9, 9, 8, 9, 1, 4, 4, 4, 4}, DType::bf16), nullptr);
  EXPECT_EQ(algorithm({1, 1 << 15, 1 << 13, 8, 3, 1, 1, 1, 1, 1}, DType::bf16), nullptr);
}

}  // namespace
}  // namespace whisker::test
