// The convolution kernels without a library. One thread per element of y (forward) or dx, one block
// per element of dw. Sums run in a fixed order: results are deterministic.
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"

namespace whisker::cuda {
namespace {

/// Indices of element `at` of an image batch (.., rows, columns, channels).
struct Element {
  int64_t image, row, column, channel;
  __device__ Element(int64_t at, int64_t rows, int64_t columns, int64_t channels)
      : image(at / (channels * columns * rows)),
        row(at / (channels * columns) % rows),
        column(at / channels % columns),
        channel(at % channels) {}
};

/// The row (or column) of the other image that tap `tap` connects with `position`; -1 outside
/// [0, count). Forward a row of x that a row of y reads, else a row of dy whose window reads a row
/// of x.
template <bool Forward>
__device__ int64_t source_of(int64_t position, int64_t pad, int64_t tap, int64_t stride,
                             int64_t count) {
  const int64_t shifted = Forward ? position * stride - pad + tap : position + pad - tap;
  if (shifted < 0 || (!Forward && shifted % stride != 0)) return -1;
  const int64_t met = Forward ? shifted : shifted / stride;
  return met < count ? met : -1;
}

/// Forward y (N, h_out, w_out, c_out) = f(x (N,H,W,C) * w (c_out, kernel_h, kernel_w, C / groups) +
/// b), x in `from` and b perhaps null; else dx from dy.
template <class T, bool Forward>
__global__ void image_kernel(Conv2dGeometry g, const T* w, const T* b, const T* from, T* to) {
  const int64_t rows = Forward ? g.h_out : g.h, columns = Forward ? g.w_out : g.w;
  const int64_t channels = Forward ? g.c_out : g.c, from_channels = Forward ? g.c : g.c_out;
  const int64_t from_rows = Forward ? g.h : g.h_out, from_columns = Forward ? g.w : g.w_out;
  const int64_t group_in = g.c / g.groups, summed = from_channels / g.groups;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       at < g.n * rows * columns * channels; at += step) {
    const auto [n, row, column, channel] = Element(at, rows, columns, channels);
    const int64_t first = channel / (channels / g.groups) * summed;
    float sum = 0;
    for (int64_t p = 0; p < g.kernel_h; ++p) {
      const int64_t i = source_of<Forward>(row, g.pad_top, p * g.dilation_h, g.stride_h, from_rows);
      if (i < 0) continue;
      for (int64_t q = 0; q < g.kernel_w; ++q) {
        const int64_t j =
            source_of<Forward>(column, g.pad_left, q * g.dilation_w, g.stride_w, from_columns);
        if (j < 0) continue;
        const T* in = from + ((n * from_rows + i) * from_columns + j) * from_channels + first;
        for (int64_t c = 0; c < summed; ++c) {
          const int64_t filter = Forward ? channel : first + c;
          const int64_t of_filter = Forward ? c : channel % group_in;
          const int64_t at_w = ((filter * g.kernel_h + p) * g.kernel_w + q) * group_in + of_filter;
          sum += to_f32(in[c]) * to_f32(w[at_w]);
        }
      }
    }
    if (b) sum += to_f32(b[channel]);
    to[at] = from_f32<T>(activate(g.activation, sum));
  }
}

/// dw (c_out, kernel_h, kernel_w, C / groups) from x and dy: a block sums over all positions of y.
template <class T>
__global__ void backward_weights_kernel(Conv2dGeometry g, const T* x, const T* dy, T* dw) {
  const int64_t group_in = g.c / g.groups;
  const int64_t group_out = g.c_out / g.groups;
  const int64_t count = g.c_out * g.kernel_h * g.kernel_w * group_in;
  for (int64_t at = blockIdx.x; at < count; at += gridDim.x) {
    const auto [k, p, q, c] = Element(at, g.kernel_h, g.kernel_w, group_in);
    const int64_t channel = k / group_out * group_in + c;
    float sum = 0;
    for (int64_t position = threadIdx.x; position < g.n * g.h_out * g.w_out;
         position += blockDim.x) {
      const Element y(position, g.h_out, g.w_out, 1);
      const int64_t row = y.row * g.stride_h - g.pad_top + p * g.dilation_h;
      const int64_t column = y.column * g.stride_w - g.pad_left + q * g.dilation_w;
      if (row < 0 || row >= g.h || column < 0 || column >= g.w) continue;
      sum += to_f32(x[((y.image * g.h + row) * g.w + column) * g.c + channel]) *
             to_f32(dy[position * g.c_out + k]);
    }
    sum = group_sum<block_threads>(sum);
    if (threadIdx.x == 0) dw[at] = from_f32<T>(sum);
  }
}

}  // namespace

ConvolutionAlgorithmPointer direct_convolution(const ConvolutionRequest& request) {
  const bool forward = request.pass == ConvolutionPass::forward;
  if (request.pooled || request.residual || request.sums || request.normalised) return nullptr;
  if (!forward && request.has_epilogue()) return nullptr;
  const auto run = [request](const KernelSite& site, const ConvolutionOperands& o, void*) {
    const Conv2dGeometry& g = request.geometry;
    const auto launch = [&](unsigned blocks, auto* kernel, auto... operands) {
      launch_kernel(site.stream, "direct convolution", blocks, kernel, g, operands...);
    };
    visit_real(g.dtype, [&]<class T>() {
      if (request.pass == ConvolutionPass::forward) {
        launch(grid_for(g.n * g.h_out * g.w_out * g.c_out), image_kernel<T, true>, o.w, o.b, o.x,
               o.y);
      } else if (request.pass == ConvolutionPass::backward_input) {
        launch(grid_for(g.n * g.h * g.w * g.c), image_kernel<T, false>, o.w, nullptr, o.y, o.x);
      } else {
        const int64_t weights = g.c_out * g.kernel_h * g.kernel_w * (g.c / g.groups);
        launch(grid_for(weights, 1), backward_weights_kernel<T>, o.x, o.y, o.w);
      }
    });
  };
  return std::make_unique<FunctionAlgorithm<ConvolutionOperands>>("direct", run);
}

}  // namespace whisker::cuda
