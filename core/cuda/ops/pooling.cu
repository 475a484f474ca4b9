// Work split: one thread per pack of channels of one window (forward), of one image element
// (backward), or of a strip of either (pooling_strips.cuh). Each element of a result has one
// writer. Blocks run along (columns x packs), rows and images. Averages of whole images are
// reductions.
#include "core/backend/pooling.h"
#include "core/backend/reduction.h"
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/ops/pooling.cuh"
#include "core/cuda/ops/pooling_strips.cuh"

namespace whisker::cuda {
namespace {

template <class T, int N, class Index>
__global__ void max_kernel(PoolShape p, const Pack<T, N>* x, Pack<T, N>* y,
                           Pack<Index, N>* argmax) {
  for_each_position(p, p.h_out, p.w_out, [&](int64_t image, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    RunningMax<N, Index> largest;
    for (int row = max(top, 0); row < min(top + p.kernel_h, p.h); ++row) {
      for (int column = max(left, 0); column < min(left + p.kernel_w, p.w); ++column) {
        largest.take(x[p.x_at(image, row, column, pack)], (row - top) * p.kernel_w + column - left);
      }
    }
    largest.store(p.y_at(image, i, j, pack), y, argmax);
  });
}

template <class T, int N>
__global__ void average_kernel(PoolShape p, const Pack<T, N>* x, Pack<T, N>* y) {
  for_each_position(p, p.h_out, p.w_out, [&](int64_t image, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    float sum[N] = {};
    for (int row = max(top, 0); row < min(top + p.kernel_h, p.h); ++row) {
      for (int column = max(left, 0); column < min(left + p.kernel_w, p.w); ++column) {
        const Pack<T, N> value = x[p.x_at(image, row, column, pack)];
#pragma unroll
        for (int c = 0; c < N; ++c) sum[c] += to_f32(value.at[c]);
      }
    }
    const float divisor = p.divisor(i, j);
    const float weight = divisor > 0 ? 1.0f / divisor : 0.0f;
    Pack<T, N> result;
#pragma unroll
    for (int c = 0; c < N; ++c) result.at[c] = from_f32<T>(sum[c] * weight);
    y[p.y_at(image, i, j, pack)] = result;
  });
}

/// Each image element adds up the windows that contain it, in order.
template <class T, int N, class Index>
__global__ void gather_kernel(PoolShape p, const Pack<Index, N>* argmax, const Pack<T, N>* dy,
                              Pack<T, N>* dx) {
  for_each_position(p, p.h, p.w, [&](int64_t image, int row, int column, int pack) {
    const int down = row + p.pad_top;
    const int across = column + p.pad_left;
    float sum[N] = {};
    const int first_i = down < p.kernel_h ? 0 : (down - p.kernel_h) / p.stride_h + 1;
    const int first_j = across < p.kernel_w ? 0 : (across - p.kernel_w) / p.stride_w + 1;
    for (int i = first_i; i <= min(down / p.stride_h, p.h_out - 1); ++i) {
      for (int j = first_j; j <= min(across / p.stride_w, p.w_out - 1); ++j) {
        const int index = (down - i * p.stride_h) * p.kernel_w + across - j * p.stride_w;
        const int64_t at = p.y_at(image, i, j, pack);
        const Pack<T, N> gradient = dy[at];
        if (argmax) {
          const Pack<Index, N> index_of_max = argmax[at];
#pragma unroll
          for (int c = 0; c < N; ++c) {
            if (index_of_max.at[c] == static_cast<Index>(index)) sum[c] += to_f32(gradient.at[c]);
          }
        } else {
          const float weight = 1.0f / p.divisor(i, j);
#pragma unroll
          for (int c = 0; c < N; ++c) sum[c] += to_f32(gradient.at[c]) * weight;
        }
      }
    }
    dx[p.x_at(image, row, column, pack)] = rounded<T, N>(sum);
  });
}

template <class Fn>
void visit_index(const Pool2dGeometry& g, Fn&& fn) {
  if (pool2d_argmax_bytes(g) == 1) {
    fn.template operator()<uint8_t>();
  } else {
    fn.template operator()<uint32_t>();
  }
}

}  // namespace

void pool2d_forward(const Context& context, const Pool2dGeometry& g, const void* x, void* y,
                    void* argmax) {
  const auto run = [&]<class T, int N>(const PoolShape& p) {
    const Blocks plane = plane_blocks(p, p.h_out, p.w_out);
    if (g.kind == PoolKind::average) {
      return launch_pdl(context, plane.grid, plane.block, average_kernel<T, N>, p, x, y);
    }
    const auto strips = [&]<int K, int S>() {
      const auto [strip, blocks] = strip_launch(context, p, p.h_out, p.w_out);
      const Maxima<T, N> maxima{static_cast<Pack<T, N>*>(y),
                                static_cast<Pack<uint8_t, N>*>(argmax)};
      launch_pdl(context, blocks.grid, blocks.block, strip_max_kernel<T, N, K, S, Maxima<T, N>>, p,
                 strip, x, maxima);
    };
    if (g.all_see_image()) {
      if (g.is_square(2, 2)) return strips.template operator()<2, 2>();
      if (g.is_square(3, 2)) return strips.template operator()<3, 2>();
      if (g.is_square(3, 1)) return strips.template operator()<3, 1>();
    }
    visit_index(g, [&]<class Index>() {
      launch_pdl(context, plane.grid, plane.block, max_kernel<T, N, Index>, p, x, y, argmax);
    });
  };
  visit_packed(g, run, argmax, x, y);
}

void pool2d_backward(const Context& context, const Pool2dGeometry& g, const void* argmax,
                     const void* dy, void* dx) {
  const auto run = [&]<class T, int N>(const PoolShape& p) {
    const auto strips = [&]<int K>() {
      const int down = (p.h + p.pad_top + 1) / 2, across = (p.w + p.pad_left + 1) / 2;
      const auto [strip, blocks] = strip_launch(context, p, down, across);
      launch_pdl(context, blocks.grid, blocks.block,
                 strip_gradient_kernel<T, N, K, GatheredGradient<T, N>>, p, down, across, strip,
                 argmax, dy, GatheredGradient<T, N>{static_cast<Pack<T, N>*>(dx)});
    };
    if (g.kind == PoolKind::max) {
      if (g.is_square(2, 2)) return strips.template operator()<2>();
      if (g.is_square(3, 2)) return strips.template operator()<3>();
    }
    visit_index(g, [&]<class Index>() {
      const Blocks plane = plane_blocks(p, p.h, p.w);
      launch_pdl(context, plane.grid, plane.block, gather_kernel<T, N, Index>, p, argmax, dy, dx);
    });
  };
  visit_packed(g, run, argmax, dy, dx);
}

namespace {

/// The only window is the image.
bool averages_images(const Pool2dGeometry& g) {
  return g.kind == PoolKind::average && g.h_out == 1 && g.w_out == 1 &&
         g.kernel_h - g.pad_top >= g.h && g.kernel_w - g.pad_left >= g.w &&
         g.divisor(0, 0) == g.h * g.w;
}

class Pooling final : public PoolingKernels, CudaKernels {
 public:
  explicit Pooling(CudaDevice& device) : CudaKernels(device), reduction_(make_reduction(device)) {}

  int64_t workspace_bytes(const Pool2dGeometry& g) override {
    if (g.kind == PoolKind::average) return 0;
    return g.n * g.h_out * g.w_out * g.c * pool2d_argmax_bytes(g);
  }

  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override {
    if (averages_images(g)) {
      const ReduceGeometry pixels{.rank = 3,
                                  .extent = {g.n, g.h * g.w, g.c},
                                  .reduced = {false, true, false},
                                  .out_count = g.n * g.c,
                                  .reduce_count = g.h * g.w};
      return reduction_->reduce(ReduceOp::mean, pixels, x, y);
    }
    context_.enter();
    pool2d_forward(context_, g, x.raw(), y.raw(), pointer(workspace));
  }

  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override {
    context_.enter();
    cuda::pool2d_backward(context_, g, pointer(workspace), dy.raw(), dx.raw());
  }

 private:
  std::shared_ptr<ReductionKernels> reduction_;
};

}  // namespace

std::shared_ptr<PoolingKernels> make_pooling(CudaDevice& device) {
  return std::make_shared<Pooling>(device);
}

}  // namespace whisker::cuda
