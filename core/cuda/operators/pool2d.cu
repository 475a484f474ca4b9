// One thread per pack of channels of one window (forward, and backward where windows do not
// overlap) or of one picture element (backward elsewhere), or of a strip of them below each other
// (pool2d_strips.cuh), so that nobody adds to what another thread writes. Blocks run along
// (columns x packs), rows and pictures.
#include "core/cuda/gpu/check.h"
#include "core/cuda/operators/pool2d.h"
#include "core/cuda/operators/pool2d_launch.cuh"
#include "core/cuda/operators/pool2d_strips.cuh"

namespace whisker::cuda {
namespace {

template <class T, int N, class Mark>
__global__ void max_kernel(Places p, const Pack<T, N>* x, Pack<T, N>* y, Pack<Mark, N>* marks) {
  for_each_place(p, p.h_out, p.w_out, [&](int64_t picture, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    Winners<N, Mark> winners;
    for (int row = max(top, 0); row < min(top + p.kernel_h, p.h); ++row) {
      for (int column = max(left, 0); column < min(left + p.kernel_w, p.w); ++column) {
        winners.take(x[p.x_at(picture, row, column, pack)],
                     (row - top) * p.kernel_w + column - left);
      }
    }
    winners.store(p.y_at(picture, i, j, pack), y, marks);
  });
}

template <class T, int N>
__global__ void average_kernel(Places p, const Pack<T, N>* x, Pack<T, N>* y) {
  for_each_place(p, p.h_out, p.w_out, [&](int64_t picture, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    float sum[N] = {};
    for (int row = max(top, 0); row < min(top + p.kernel_h, p.h); ++row) {
      for (int column = max(left, 0); column < min(left + p.kernel_w, p.w); ++column) {
        const Pack<T, N> value = x[p.x_at(picture, row, column, pack)];
#pragma unroll
        for (int c = 0; c < N; ++c) sum[c] += to_f32(value.at[c]);
      }
    }
    const float divisor = p.divisor(i, j);
    Pack<T, N> result;
#pragma unroll
    for (int c = 0; c < N; ++c) result.at[c] = from_f32<T>(divisor > 0 ? sum[c] / divisor : 0.0f);
    y[p.y_at(picture, i, j, pack)] = result;
  });
}

/// What window (i, j) gives to each channel of the place (p, q) within it. `marks` is null for
/// averages.
template <class T, int N, class Mark>
__device__ void add_share(const Places& p, const Pack<Mark, N>* marks, const Pack<T, N>* dy,
                          int64_t picture, int i, int j, int pack, int place, float* sum) {
  const int64_t at = p.y_at(picture, i, j, pack);
  const Pack<T, N> gradient = dy[at];
  if (marks) {
    const Pack<Mark, N> winner = marks[at];
#pragma unroll
    for (int c = 0; c < N; ++c) {
      if (winner.at[c] == static_cast<Mark>(place)) sum[c] += to_f32(gradient.at[c]);
    }
  } else {
    const float divisor = p.divisor(i, j);
#pragma unroll
    for (int c = 0; c < N; ++c) sum[c] += to_f32(gradient.at[c]) / divisor;
  }
}

/// Strides of at least the kernel: window (i, j) writes its own places and those between it and
/// the next one (the picture's edges for the first and the last).
template <class T, int N, class Mark>
__global__ void scatter_kernel(Places p, const Pack<Mark, N>* marks, const Pack<T, N>* dy,
                               Pack<T, N>* dx) {
  for_each_place(p, p.h_out, p.w_out, [&](int64_t picture, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    const int bottom = i + 1 == p.h_out ? p.h : min(top + p.stride_h, p.h);
    const int right = j + 1 == p.w_out ? p.w : min(left + p.stride_w, p.w);
    for (int row = i == 0 ? 0 : max(top, 0); row < bottom; ++row) {
      for (int column = j == 0 ? 0 : max(left, 0); column < right; ++column) {
        float sum[N] = {};
        const int down = row - top;
        const int across = column - left;
        if (down >= 0 && down < p.kernel_h && across >= 0 && across < p.kernel_w) {
          add_share(p, marks, dy, picture, i, j, pack, down * p.kernel_w + across, sum);
        }
        dx[p.x_at(picture, row, column, pack)] = rounded<T, N>(sum);
      }
    }
  });
}

/// Overlapping windows: each picture element asks the windows that see it, in order.
template <class T, int N, class Mark>
__global__ void gather_kernel(Places p, const Pack<Mark, N>* marks, const Pack<T, N>* dy,
                              Pack<T, N>* dx) {
  for_each_place(p, p.h, p.w, [&](int64_t picture, int row, int column, int pack) {
    const int down = row + p.pad_top;
    const int across = column + p.pad_left;
    float sum[N] = {};
    const int first_i = down < p.kernel_h ? 0 : (down - p.kernel_h) / p.stride_h + 1;
    const int first_j = across < p.kernel_w ? 0 : (across - p.kernel_w) / p.stride_w + 1;
    for (int i = first_i; i <= min(down / p.stride_h, p.h_out - 1); ++i) {
      for (int j = first_j; j <= min(across / p.stride_w, p.w_out - 1); ++j) {
        const int place = (down - i * p.stride_h) * p.kernel_w + across - j * p.stride_w;
        add_share(p, marks, dy, picture, i, j, pack, place, sum);
      }
    }
    dx[p.x_at(picture, row, column, pack)] = rounded<T, N>(sum);
  });
}

template <class Fn>
void visit_mark(const Pool2dGeometry& g, Fn&& fn) {
  if (pool2d_mark_bytes(g) == 1) {
    fn.template operator()<uint8_t>();
  } else {
    fn.template operator()<uint32_t>();
  }
}

}  // namespace

void pool2d_forward(const Context& context, const Pool2dGeometry& g, const void* x, void* y,
                    void* marks) {
  const auto run = [&]<class T, int N>(const Places& p) {
    const PlaneLaunch launch = plane_launch(p, p.h_out, p.w_out);
    const auto* in = static_cast<const Pack<T, N>*>(x);
    auto* out = static_cast<Pack<T, N>*>(y);
    if (g.kind == PoolKind::average) {
      launch_early(context, launch.grid, launch.block, average_kernel<T, N>, p, in, out);
      return;
    }
    const auto strips = [&]<int K, int S>() {
      const StripLaunch by_strips = strip_launch(context, p, p.h_out, p.w_out);
      launch_early(context, by_strips.blocks.grid, by_strips.blocks.block,
                   strip_max_kernel<T, N, K, S, Maxima<T, N>>, p, by_strips.strip, in,
                   Maxima<T, N>{out, static_cast<Pack<uint8_t, N>*>(marks)});
    };
    if (g.all_see_picture()) {
      if (g.is_square(2, 2)) return strips.template operator()<2, 2>();
      if (g.is_square(3, 2)) return strips.template operator()<3, 2>();
      if (g.is_square(3, 1)) return strips.template operator()<3, 1>();
    }
    visit_mark(g, [&]<class Mark>() {
      launch_early(context, launch.grid, launch.block, max_kernel<T, N, Mark>, p, in, out,
                   static_cast<Pack<Mark, N>*>(marks));
    });
  };
  visit_packed(g, run, marks, x, y);
  check_launch("pooling");
}

void pool2d_backward(const Context& context, const Pool2dGeometry& g, const void* marks,
                     const void* dy, void* dx) {
  const bool apart = g.stride_h >= g.kernel_h && g.stride_w >= g.kernel_w;
  const auto run = [&]<class T, int N>(const Places& p) {
    const auto* gradient = static_cast<const Pack<T, N>*>(dy);
    auto* out = static_cast<Pack<T, N>*>(dx);
    const auto strips = [&]<int K>() {
      const int down = (p.h + p.pad_top + 1) / 2, across = (p.w + p.pad_left + 1) / 2;
      const StripLaunch by_strips = strip_launch(context, p, down, across);
      launch_early(context, by_strips.blocks.grid, by_strips.blocks.block,
                   strip_gradient_kernel<T, N, K, GatheredGradient<T, N>>, p, down, across,
                   by_strips.strip, static_cast<const Pack<uint8_t, N>*>(marks), gradient,
                   GatheredGradient<T, N>{out});
    };
    if (g.kind == PoolKind::max) {
      if (g.is_square(2, 2)) return strips.template operator()<2>();
      if (g.is_square(3, 2)) return strips.template operator()<3>();
    }
    visit_mark(g, [&]<class Mark>() {
      const auto* winners = static_cast<const Pack<Mark, N>*>(marks);
      if (apart) {
        const PlaneLaunch launch = plane_launch(p, p.h_out, p.w_out);
        launch_early(context, launch.grid, launch.block, scatter_kernel<T, N, Mark>, p, winners,
                     gradient, out);
      } else {
        const PlaneLaunch launch = plane_launch(p, p.h, p.w);
        launch_early(context, launch.grid, launch.block, gather_kernel<T, N, Mark>, p, winners,
                     gradient, out);
      }
    });
  };
  visit_packed(g, run, marks, dy, dx);
  check_launch("pooling's gradient");
}

}  // namespace whisker::cuda
