// Depthwise convolution, one filter per channel, in NHWC: square kernels of 3, 5 and 7, strides of
// 1 and 2. Sums are f32 in a fixed order: results are deterministic.
#include "core/cuda/convolution/add_slices.cuh"
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/depthwise_kernels.cuh"
#include "core/cuda/convolution/depthwise_weights.cuh"
#include "core/cuda/convolution/depthwise_weights_mma.cuh"

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
  s.chunks = static_cast<int>(divided_up(pairs, most_lanes));
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
  s.step = int64_t{s.slices} * s.positions;
  s.x_row = g.w * g.c;
  s.y_row = g.w_out * g.c;
  return s;
}

class DepthwiseConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwiseConvolution(const ConvolutionRequest& request, const KernelSite& site)
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
  }
  std::string name() const override { return "depthwise"; }
  int64_t workspace_bytes() const override {
    const Conv2dGeometry& g = geometry_;
    if (request_.pass == ConvolutionPass::backward_weights) {
      return weights_slices() * g.kernel_h * g.kernel_w * g.c * int64_t{sizeof(float)};
    }
    return adds_up() ? split_.slices * g.c * int64_t{sizeof(double2)} : 0;
  }

  void run(const KernelSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    visit_real(geometry_.dtype, [&]<class T>() {
      visit_window(geometry_, [&]<int K, int S>() {
        switch (request_.pass) {
          case ConvolutionPass::forward:
            return forward<T, K, S>(site, operands, workspace);
          case ConvolutionPass::backward_input:
            return backward_input<T, K, S>(site, operands, workspace);
          case ConvolutionPass::backward_weights:
            return backward_weights<T, K, S>(site, operands, workspace);
        }
      });
    });
  }

 private:
  bool adds_up() const { return request_.sums || request_.normalised; }
  int64_t weights_slices() const {
    return mma_split_.slices > 0 ? mma_split_.slices * mma_split_.parts
                                 : split_.slices * split_.positions;
  }

  template <class T, int K, int S>
  void forward(const KernelSite& site, const ConvolutionOperands& o, void* workspace) const {
    if (!adds_up()) {
      return rows_of<T, K, S, StoredRows<T>>(
          site, o.w, o.x, {geometry_.activation, static_cast<const T*>(o.b), static_cast<T*>(o.y)});
    }
    rows_of<T, K, S, SummedRows<T>>(site, o.w, o.x, {static_cast<T*>(o.y)}, workspace, o.norm);
    const auto count = static_cast<double>(geometry_.n * geometry_.h_out * geometry_.w_out);
    add_slices<double2>(site, workspace, split_.slices, geometry_.c,
                        StoreSums{static_cast<int>(geometry_.c), count, o.sums});
  }

  template <class T, int K, int S>
  void backward_input(const KernelSite& site, const ConvolutionOperands& o, void* workspace) const {
    T* const x = static_cast<T*>(o.x);
    if (!adds_up()) return gradient_rows<T, K, S, StoredRows<T>>(site, o.w, o.y, {{}, nullptr, x});
    const NormGradients& norm = o.norm_gradients;
    gradient_rows<T, K, S, NormSumRows<T, S>>(
        site, o.w, o.y, {o.norm, static_cast<const T*>(norm.x), x}, workspace);
    const Conv2dGeometry& g = request_.geometry;
    const StoreNormGradient factors{static_cast<double>(g.n * g.h * g.w), o.norm.inv_std,
                                    o.norm.gamma, norm};
    add_slices<double2>(site, workspace, split_.slices, geometry_.c, factors);
  }

  template <class T, int K, int S>
  void backward_weights(const KernelSite& site, const ConvolutionOperands& o,
                        void* workspace) const {
    if (mma_split_.slices > 0) {
      backward_weights_mma<T, K, S>(site, geometry_, mma_split_, o.norm, o.x, o.y, workspace);
    } else {
      launch_pdl(site, {grid(), threads}, backward_weights_kernel<T, K, S>, geometry_, split_,
                 o.norm, o.x, o.y, workspace);
    }
    add_slices<float>(site, workspace, weights_slices(), K * K * geometry_.c,
                      StoreWeights<T>{K * K, static_cast<int>(geometry_.c), static_cast<T*>(o.w)});
  }

  /// Rows of y or, with a stride of 1, of the gradient of x from those of x or dy in `in`.
  template <class T, int K, int S, class Rows>
  void rows_of(const KernelSite& site, const void* w, const void* in,
               const typename Rows::Operands& operands, void* workspace = nullptr,
               const ImageNorm& norm = {}) const {
    launch_pdl(site, {grid(), threads, filter_bytes()}, forward_kernel<T, K, S, Rows>, geometry_,
               split_, request_.pass == ConvolutionPass::backward_input, norm, in, w, operands,
               workspace);
  }
  template <class T, int K, int S, class Rows>
  void gradient_rows(const KernelSite& site, const void* w, const void* dy,
                     const typename Rows::Operands& operands, void* workspace = nullptr) const {
    if constexpr (S == 1) {
      rows_of<T, K, S, Rows>(site, w, dy, operands, workspace);
    } else {
      launch_pdl(site, {grid(), threads, filter_bytes()}, backward_input_kernel<T, K, Rows>,
                 geometry_, split_, w, dy, operands, workspace);
    }
  }
  size_t filter_bytes() const {
    const Conv2dGeometry& g = geometry_;
    return static_cast<size_t>(g.kernel_h * g.kernel_w * split_.lanes * channels) * sizeof(float);
  }

  dim3 grid() const {
    return {static_cast<unsigned>(split_.slices), static_cast<unsigned>(split_.chunks)};
  }

  ConvolutionRequest request_;
  Conv2dGeometry geometry_;  // of the convolution that runs
  Split split_;
  MmaSplit mma_split_;  // of weights' gradients on tensor cores; else without slices
};

}  // namespace

ConvolutionAlgorithmPointer depthwise_convolution(const ConvolutionRequest& request,
                                                  const KernelSite& site) {
  const Conv2dGeometry& g = request.geometry;
  const bool forward = request.pass == ConvolutionPass::forward;
  if (request.pooled || request.residual) return nullptr;
  if (forward ? request.normalised && !request.sums : request.sums) return nullptr;
  if ((!forward || request.sums) && request.has_epilogue()) return nullptr;
  if (!depthwise_takes_norm(g)) return nullptr;
  return std::make_unique<DepthwiseConvolution>(request, site);
}

}  // namespace whisker::cuda
