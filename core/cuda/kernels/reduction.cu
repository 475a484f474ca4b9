// Reductions over axes. G threads compute one result: a block or a warp where the innermost axis is
// reduced, one thread where it is kept, so that adjacent threads always read adjacent elements.
// With fewer results than the GPU has threads, the reduced elements are split into parts, and a
// second pass combines the parts. Sums are f32, in an order fixed by the extents.
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/kernels/reduction.h"
#include "core/cuda/kernels/walk.cuh"

#include <limits>

namespace whisker::cuda::kernels {
namespace {

/// x as two strided walks: over the results, and over the elements that each of them reduces.
struct Walks {
  int kept_rank = 0, reduced_rank = 0;
  Extents kept_extent{}, kept_stride{}, reduced_extent{}, reduced_stride{};
  int64_t kept_count = 1, reduced_count = 1;
};

Walks walks_of(const ReduceGeometry& g) {
  Extents stride{};
  int64_t next = 1;
  for (int axis = g.rank - 1; axis >= 0; --axis) {
    stride[static_cast<size_t>(axis)] = next;
    next *= g.extent[static_cast<size_t>(axis)];
  }
  Walks w{.kept_count = g.out_count, .reduced_count = g.reduce_count};
  for (size_t axis = 0; axis < static_cast<size_t>(g.rank); ++axis) {
    if (g.reduced[axis]) {
      w.reduced_extent[static_cast<size_t>(w.reduced_rank)] = g.extent[axis];
      w.reduced_stride[static_cast<size_t>(w.reduced_rank++)] = stride[axis];
    } else {
      w.kept_extent[static_cast<size_t>(w.kept_rank)] = g.extent[axis];
      w.kept_stride[static_cast<size_t>(w.kept_rank++)] = stride[axis];
    }
  }
  return w;
}

__device__ int64_t offset_of(int rank, const Extents& extent, const Extents& stride, int64_t count,
                             int64_t element) {
  int64_t sum = 0;
  for_each_coordinate(rank, extent, count, element,
                      [&](int axis, int64_t coordinate) { sum += coordinate * stride[axis]; });
  return sum;
}

/// Combines two values; max and min return NaN if one is NaN.
struct Combine {
  ReduceOp op;
  __device__ float operator()(float a, float b) const {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::mean:
        return a + b;
      case ReduceOp::max:
        return b > a || isnan(b) ? b : a;
      case ReduceOp::min:
        return b < a || isnan(b) ? b : a;
    }
    return a;
  }
};

// y (parts, kept_count): part blockIdx.y of each result, times `scale`. blockIdx.x counts results
// in turns of block_threads / G.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    reduce_kernel(Combine combine, float start, float scale, Walks w, const T* x, Channels y) {
  const int64_t part_size = (w.reduced_count + gridDim.y - 1) / gridDim.y;
  const int64_t begin = blockIdx.y * part_size;
  const int64_t end = min(begin + part_size, w.reduced_count);
  constexpr int per_block = block_threads / G;
  const int lane = threadIdx.x % G;
  // All threads run every turn, since a group reduces together.
  for (int64_t turn = blockIdx.x; turn * per_block < w.kept_count; turn += gridDim.x) {
    const int64_t out = turn * per_block + threadIdx.x / G;
    float value = start;
    if (out < w.kept_count) {
      const T* from = x + offset_of(w.kept_rank, w.kept_extent, w.kept_stride, w.kept_count, out);
      for (int64_t r = begin + lane; r < end; r += G) {
        const int64_t at =
            offset_of(w.reduced_rank, w.reduced_extent, w.reduced_stride, w.reduced_count, r);
        value = combine(value, to_f32(from[at]));
      }
    }
    value = group_reduce<G>(value, combine);
    if (lane == 0 && out < w.kept_count) {
      store(y, blockIdx.y * w.kept_count + out, value * scale);
    }
  }
}

struct Launch {
  cudaStream_t stream;
  Combine combine;
  float start;
};

// One pass: y (parts, kept_count).
template <class T>
void reduce_pass(const Launch& launch, const Walks& w, int group, int64_t parts, float scale,
                 const T* x, Channels y) {
  const int64_t turns = (w.kept_count * group + block_threads - 1) / block_threads;
  const dim3 grid(grid_for(turns, 1), static_cast<unsigned>(parts));
  const auto run = [&]<int G>() {
    reduce_kernel<T, G>
        <<<grid, block_threads, 0, launch.stream>>>(launch.combine, launch.start, scale, w, x, y);
  };
  if (group == 1) run.template operator()<1>();
  if (group == 32) run.template operator()<32>();
  if (group == block_threads) run.template operator()<block_threads>();
  check_launch("reduce");
}

int group_for(const Walks& w, bool innermost_reduced) {
  if (!innermost_reduced && w.kept_count >= 32) return 1;
  return w.reduced_count <= 1024 && w.kept_count > 1 ? 32 : block_threads;
}

/// Position and value of the largest so far.
struct Best {
  float value;
  int64_t at;
};

// G threads per column of the middle axis.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    argmax_kernel(SoftmaxGeometry g, const T* x, int64_t* y) {
  constexpr int per_block = block_threads / G;
  const int lane = threadIdx.x % G;
  const int64_t columns = g.outer * g.inner;
  for (int64_t turn = blockIdx.x; turn * per_block < columns; turn += gridDim.x) {
    const int64_t column = turn * per_block + threadIdx.x / G;
    if (column >= columns) continue;  // whole warps: G is 1 or 32
    const T* from = x + column / g.inner * g.classes * g.inner + column % g.inner;
    Best best{-std::numeric_limits<float>::infinity(), INT64_MAX};
    const auto take = [&](float value, int64_t at) {
      const bool greater = value > best.value || (isnan(value) && !isnan(best.value));
      const bool equal = value == best.value || (isnan(value) && isnan(best.value));
      if (greater || (equal && at < best.at)) best = {value, at};
    };
    for (int64_t c = lane; c < g.classes; c += G) take(to_f32(from[c * g.inner]), c);
    for (int distance = G / 2; distance > 0; distance /= 2) {
      const float value = __shfl_xor_sync(all_lanes, best.value, distance);
      const int64_t at = __shfl_xor_sync(all_lanes, best.at, distance);
      take(value, at);
    }
    if (lane == 0) y[column] = best.at;
  }
}

}  // namespace

void reduce(cudaStream_t stream, Allocator& allocator, ReduceOp op, const ReduceGeometry& g,
            DType dtype, const void* x, void* y) {
  const Walks w = walks_of(g);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Launch launch{stream, Combine{op},
                      op == ReduceOp::max   ? -infinity
                      : op == ReduceOp::min ? infinity
                                            : 0.0f};
  const float scale =
      op == ReduceOp::mean ? static_cast<float>(1.0 / static_cast<double>(g.reduce_count)) : 1.0f;
  const bool innermost_reduced = g.rank > 0 && g.reduced[static_cast<size_t>(g.rank - 1)];
  const int group = group_for(w, innermost_reduced);

  // Enough parts to fill the GPU, none too short.
  constexpr int64_t gpu_threads = int64_t{132} * 2048;
  const int64_t wanted = gpu_threads / (w.kept_count * group);
  const int64_t parts =
      std::clamp<int64_t>(wanted, 1, std::max<int64_t>(w.reduced_count / (group * 16), 1));
  visit_real(dtype, [&]<class T>() {
    const auto* in = static_cast<const T*>(x);
    if (parts == 1) {
      reduce_pass(launch, w, group, 1, scale, in, Channels{y, dtype});
      return;
    }
    const Scratch partial(allocator, parts * w.kept_count * int64_t{sizeof(float)});
    reduce_pass(launch, w, group, parts, 1, in, Channels{partial.data(), DType::f32});
    Walks second{
        .kept_rank = 1, .reduced_rank = 1, .kept_count = w.kept_count, .reduced_count = parts};
    second.kept_extent[0] = w.kept_count;
    second.kept_stride[0] = 1;
    second.reduced_extent[0] = parts;
    second.reduced_stride[0] = w.kept_count;
    reduce_pass(launch, second, group_for(second, false), 1, scale, partial.as<const float>(),
                Channels{y, dtype});
  });
}

void argmax(cudaStream_t stream, const SoftmaxGeometry& g, DType dtype, const void* x, int64_t* y) {
  const int64_t columns = g.outer * g.inner;
  visit_real(dtype, [&]<class T>() {
    const auto* in = static_cast<const T*>(x);
    if (g.inner == 1 && g.classes > 4) {
      argmax_kernel<T, 32><<<grid_for(columns * 32), block_threads, 0, stream>>>(g, in, y);
    } else {
      argmax_kernel<T, 1><<<grid_for(columns), block_threads, 0, stream>>>(g, in, y);
    }
  });
  check_launch("argmax");
}

}  // namespace whisker::cuda::kernels
