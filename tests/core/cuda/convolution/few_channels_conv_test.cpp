// Few-channel convolutions as GPUs with other numbers of multiprocessors and other shared memory
// cut them into tiles and blocks, on the one at hand: results may not depend on it. Whole numbers,
// so that no order of adding shows.
#include "core/cuda/convolution/few_channels/few_channels_conv.h"

#include "core/backend/backend.h"
#include "whole_numbers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace whisker::test {
namespace {

using namespace cuda;

struct Card {
  const char* name;
  int multiprocessors, capability;
  size_t multiprocessor_kibi;  // of shared memory

  KernelSite site() const {
    return {.multiprocessors = multiprocessors,
            .capability = capability,
            .multiprocessor_bytes = multiprocessor_kibi * 1024};
  }
};
constexpr Card cards[] = {{"A100", 108, 80, 164},
                          {"RTX 3050", 20, 86, 100},
                          {"one multiprocessor", 1, 89, 100},
                          {"H200", 132, 90, 228},
                          {"RTX 5090", 170, 120, 100}};

KernelSite site_here() {
  cudaDeviceProp p{};
  EXPECT_EQ(cudaGetDeviceProperties(&p, gpu.index), cudaSuccess);
  return {.multiprocessors = p.multiProcessorCount,
          .capability = p.major * 10 + p.minor,
          .multiprocessor_bytes = p.sharedMemPerMultiprocessor};
}

ConvolutionRequest request_of(ConvolutionPass pass, DType dtype, const Shape& x, int64_t filters) {
  ConvolutionRequest request{.pass = pass, .tf32 = true};
  Conv2dGeometry& g = request.geometry;
  g.n = x[0], g.h = x[1], g.w = x[2], g.c = x[3], g.c_out = filters;
  g.kernel_h = g.kernel_w = 3;
  g.pad_top = g.pad_bottom = g.pad_left = g.pad_right = 1;
  g.h_out = g.h, g.w_out = g.w;
  g.dtype = dtype;
  g.bias = true;
  g.activation.kind = Activation::relu;
  return request;
}

/// What one pass reads.
struct Inputs {
  explicit Inputs(const ConvolutionRequest& request) {
    const Conv2dGeometry& g = request.geometry;
    const auto on_gpu = [&](const Shape& shape, uint64_t stream) {
      return whole_numbers(shape, stream).to(g.dtype).to(gpu);
    };
    const int64_t step = request.pooled ? 2 : 1;
    y_shape = {g.n, g.h_out / step, g.w_out / step, g.c_out};
    x = on_gpu({g.n, g.h, g.w, g.c}, 0);
    w = on_gpu({g.c_out, 3, 3, g.c}, 1);
    b = on_gpu({g.c_out}, 2);
    dy = on_gpu(y_shape, 3);
    y = on_gpu(y_shape, 5);
    argmax = rand_uniform(y_shape, 0, 4, 7, 6).to(DType::u8).to(gpu);
  }
  Shape y_shape;
  Tensor x, w, b, dy, y, argmax;
};

/// Fills `t` with NaN on the kernels' stream, in their order: a fill on another one was seen to
/// end after kernels that began when cudaStreamSynchronize() had waited for it, on a GPU shared
/// with other processes.
void poison(const Tensor& t, const KernelSite& site) {
  EXPECT_EQ(cudaMemsetAsync(t.raw(), 0xff, static_cast<size_t>(t.bytes()), site.stream),
            cudaSuccess);
}

/// What a pass writes; empty where there is no few-channel kernel for it.
std::vector<std::vector<double>> results_of(const ConvolutionRequest& request, const Inputs& in,
                                            const KernelSite& site) {
  const auto algorithm = few_channels_conv(request, site);
  if (!algorithm) return {};
  const TensorOptions bytes{.dtype = DType::u8, .device = gpu};
  const Tensor workspace = empty({std::max<int64_t>(1, algorithm->workspace_bytes())}, bytes);
  std::vector<Tensor> written;
  ConvolutionOperands operands{.x = in.x.raw()};
  const auto write = [&](const Tensor& t) {
    written.push_back(t);
    return t.raw();
  };
  if (request.pass == ConvolutionPass::forward) {
    operands.w = in.w.raw();
    operands.b = in.b.raw();
    operands.y = write(empty_like(in.y));
    if (request.pooled) operands.argmax = write(empty(in.y_shape, bytes));
  } else {
    operands.w = write(empty_like(in.w));
    operands.b = write(empty_like(in.b));
    operands.y = in.dy.raw();
    operands.output = in.y.raw();
    operands.argmax = in.argmax.raw();
  }
  backend_of(gpu).synchronize();
  poison(workspace, site);
  for (const Tensor& t : written) poison(t, site);
  algorithm->run(site, operands, workspace.raw());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<std::vector<double>> results;
  for (const Tensor& t : written) results.push_back(t.to_vector());
  return results;
}

/// Both passes, plain and pooled, in every type.
std::vector<ConvolutionRequest> requests() {
  std::vector<ConvolutionRequest> all;
  for (const Shape& x : {Shape{3, 13, 45, 3}, Shape{2, 31, 70, 1}}) {
    for (const int64_t filters : {16, 32, 40, 64}) {
      const bool rounded = filters % 32 != 0;  // only without pooling
      for (const DType dtype : dtypes) {
        for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::backward_weights}) {
          ConvolutionRequest request = request_of(pass, dtype, x, filters);
          all.push_back(request);
          if (rounded) continue;
          request.pooled = true;
          all.push_back(request);
        }
      }
    }
  }
  return all;
}

/// Where two results differ, for the text of a failure; empty where they are equal.
std::string differences(const std::vector<std::vector<double>>& results,
                        const std::vector<std::vector<double>>& expected) {
  std::string text;
  for (size_t k = 0; k < expected.size(); ++k) {
    const auto& got = results.at(k);
    size_t count = 0, first = 0;
    for (size_t i = expected[k].size(); i-- > 0;) {
      if (got[i] == expected[k][i]) continue;
      ++count;
      first = i;
    }
    if (count == 0) continue;
    text += fmt::format("output {}: {} of {} elements differ, the first at {}: {} for {}\n", k,
                        count, got.size(), first, got[first], expected[k][first]);
  }
  return text;
}

class CudaFewChannelsConv : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) backend_of(gpu).set_memory_options({});  // poison() instead
  }
};

TEST_F(CudaFewChannelsConv, ComputesTheSameByTheTilesOfAnyCard) {
  const KernelSite here = site_here();
  for (const ConvolutionRequest& request : requests()) {
    SCOPED_TRACE(request.describe());
    const Inputs in(request);
    const auto expected = results_of(request, in, here);
    ASSERT_FALSE(expected.empty());
    for (const Card& card : cards) {
      SCOPED_TRACE(card.name);
      const auto results = results_of(request, in, card.site());
      ASSERT_FALSE(results.empty());
      EXPECT_EQ(differences(results, expected), "");
    }
  }
}

TEST(FewChannelsConv, RefusesWhatThereIsNoKernelFor) {
  const ConvolutionRequest request =
      request_of(ConvolutionPass::forward, DType::bf16, {2, 8, 8, 5}, 32);
  EXPECT_EQ(few_channels_conv(request, cards[0].site()), nullptr);
}

}  // namespace
}  // namespace whisker::test
