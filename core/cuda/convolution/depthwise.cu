// Depthwise convolution, one filter per channel, in NHWC: square kernels of 3, 5 and 7, strides of
// 1 and 2. Sums are f32 in a fixed order: results are deterministic.
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/depthwise_kernels.cuh"
#include "core/cuda/convolution/depthwise_weights_mma.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace whisker::cuda {
namespace {

using namespace depthwise;

int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Calls fn.template operator()<K, S>() with the kernel and stride of `g`.
template <class Fn>
void visit_window(const Conv2dGeometry& g, Fn&& fn) {
  const auto with_stride = [&]<int K>() {
    return g.stride_h == 1 ? fn.template operator()<K, 1>() : fn.template operator()<K, 2>();
  };
  if (g.kernel_h == 3) return with_stride.template operator()<3>();
  if (g.kernel_h == 5) return with_stride.template operator()<5>();
  return with_stride.template operator()<7>();
}

/// Work of a pass over images of strips of `rows` steps with `columns` outputs each. Blocks fill
/// the multiprocessors once; bands are as many as make the longest thread's rows fewest.
Split split_work(const Conv2dGeometry& g, int64_t rows, int64_t columns, int multiprocessors) {
  Split s;
  const int64_t pairs = g.c / channels;
  s.chunks = static_cast<int>(divided_up(pairs, 32));
  s.lanes = static_cast<int>(divided_up(pairs, s.chunks));
  s.positions = threads / s.lanes;
  s.strips = static_cast<int>(divided_up(columns, tile));
  const int64_t blocks = int64_t{multiprocessors} * resident_blocks(static_cast<int>(g.kernel_h),
                                                                    static_cast<int>(g.stride_h),
                                                                    g.dtype == DType::f32);
  const int64_t most_slices = std::max<int64_t>(blocks / s.chunks, 1);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t bands = 1; bands <= rows; ++bands) {
    const int64_t band_rows = divided_up(rows, bands);
    if (divided_up(rows, band_rows) != bands) continue;  // the last bands would be empty
    const int64_t count = g.n * bands * s.strips;
    const int64_t slices = std::clamp<int64_t>(divided_up(count, s.positions), 1, most_slices);
    // Each band reads and computes part of a window's rows twice.
    const int64_t cost = divided_up(count, slices * s.positions) * (band_rows + g.kernel_h);
    if (cost >= least) continue;
    least = cost;
    s.bands = static_cast<int>(bands);
    s.band_rows = static_cast<int>(band_rows);
    s.slices = static_cast<int>(slices);
    s.count = count;
  }
  return s;
}

class DepthwiseConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwiseConvolution(const ConvolutionRequest& request, const ConvolutionSite& site)
      : request_(request), geometry_(request.geometry) {
    Conv2dGeometry& g = geometry_;
    int64_t rows = g.h_out, columns = g.w_out;
    if (request.pass == ConvolutionPass::backward_input && g.stride_h == 1) {
      // A convolution of dy with the filters turned around.
      std::swap(g.h, g.h_out);
      std::swap(g.w, g.w_out);
      g.pad_top = g.kernel_h - 1 - g.pad_top;
      g.pad_left = g.kernel_w - 1 - g.pad_left;
      rows = g.h_out;
      columns = g.w_out;
    } else if (request.pass == ConvolutionPass::backward_input) {
      rows = divided_up(g.h + odd_start(g.pad_top), 2);  // pairs
      columns = g.w + odd_start(g.pad_left);
    }
    split_ = split_work(g, rows, columns, site.multiprocessors);
    if (request.pass != ConvolutionPass::backward_weights) return;
    visit_window(g, [&]<int K, int S>() { mma_split_ = mma_split<K, S>(g, site); });
    if (mma_split_.slices > 0) split_.slices = mma_split_.slices * mma_split_.parts;
  }
  std::string name() const override { return std::string(depthwise_name); }
  int64_t workspace_bytes() const override {
    if (request_.pass != ConvolutionPass::backward_weights) return 0;
    const Conv2dGeometry& g = geometry_;
    return split_.slices * g.kernel_h * g.kernel_w * g.c * static_cast<int64_t>(sizeof(float));
  }

  void run(const ConvolutionSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    visit_real(geometry_.dtype, [&]<class T>() {
      visit_window(geometry_, [&]<int K, int S>() { run_as<T, K, S>(site, operands, workspace); });
    });
    check_launch("depthwise convolution");
  }

 private:
  ImageNorm norm_of(const ConvolutionOperands& operands) const {
    if (!request_.normalised) return {};
    const NormOperands& norm = operands.norm;
    return {.mean = static_cast<const float*>(norm.mean),
            .inv_std = static_cast<const float*>(norm.inv_std),
            .gamma = static_cast<const float*>(norm.gamma),
            .beta = static_cast<const float*>(norm.beta),
            .activation = norm.activation};
  }

  template <class T, int K, int S>
  void run_as(const ConvolutionSite& site, const ConvolutionOperands& operands,
              void* workspace) const {
    const Conv2dGeometry& g = geometry_;
    T* const x = static_cast<T*>(operands.x);
    T* const w = static_cast<T*>(operands.w);
    T* const y = static_cast<T*>(operands.y);
    const dim3 grid(static_cast<unsigned>(split_.slices), static_cast<unsigned>(split_.chunks));
    const auto filters = static_cast<size_t>(K * K * split_.lanes * channels) * sizeof(float);
    if (request_.pass == ConvolutionPass::forward) {
      forward_kernel<T, K, S><<<grid, threads, filters, site.stream>>>(
          g, split_, false, norm_of(operands), x, w, static_cast<const T*>(operands.b), y);
    } else if (request_.pass == ConvolutionPass::backward_weights) {
      auto* const partial = static_cast<float*>(workspace);
      const int64_t outputs = K * K * g.c;
      if (mma_split_.slices > 0) {
        backward_weights_mma<T, K, S>(site, g, mma_split_, norm_of(operands), x, y, partial);
      } else {
        backward_weights_kernel<T, K, S>
            <<<grid, threads, 0, site.stream>>>(g, split_, norm_of(operands), x, y, partial);
      }
      add_slices_kernel<T>
          <<<static_cast<unsigned>(divided_up(outputs, outputs_per_block)), threads, 0,
             site.stream>>>(partial, split_.slices, K * K, static_cast<int>(g.c), w);
    } else if constexpr (S == 1) {
      forward_kernel<T, K, 1>
          <<<grid, threads, filters, site.stream>>>(g, split_, true, {}, y, w, nullptr, x);
    } else {
      backward_input_kernel<T, K><<<grid, threads, filters, site.stream>>>(g, split_, w, y, x);
    }
  }

  ConvolutionRequest request_;
  Conv2dGeometry geometry_;  // of the convolution that runs
  Split split_;
  MmaSplit mma_split_;  // of weights' gradients on tensor cores; else without slices
};

}  // namespace

ConvolutionAlgorithmPointer depthwise_convolution(const ConvolutionRequest& request,
                                                  const ConvolutionSite& site) {
  const Conv2dGeometry& g = request.geometry;
  const bool forward = request.pass == ConvolutionPass::forward;
  if (request.pooled || request.both || request.sums || request.residual) return nullptr;
  if (request.normalised && request.pass == ConvolutionPass::backward_input) return nullptr;
  if (!forward && request.has_epilogue()) return nullptr;
  if (!fuses_norm(g)) return nullptr;
  return std::make_unique<DepthwiseConvolution>(request, site);
}

}  // namespace whisker::cuda
