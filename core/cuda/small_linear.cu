// Products in tiles of 32x32, a block each, with both operands' strips of 32 in shared memory; sums
// in f32, in order. Backward, some blocks make tiles of dx and the others tiles of dw; all of them
// make dz = f'(y) dy while they load it.
#include "core/cuda/activations.cuh"
#include "core/cuda/check.h"
#include "core/cuda/early_launch.cuh"
#include "core/cuda/launch.h"
#include "core/cuda/small_linear.h"
#include "core/cuda/types.cuh"

namespace whisker::cuda {
namespace {

constexpr int side = 32;                            // of a tile and of a strip
constexpr int rows_between = block_threads / side;  // a thread has every eighth row of the tile
constexpr int rows_each = side / rows_between;
// Rows of a strip lie a multiple of 16 bytes apart and across the banks: four values of k are one
// read.
constexpr int pitch = side + 4;

/// An operand's elements: at(i, k), i along the tile. `along_k`: neighbours in memory lie along k.
template <class At>
struct Operand {
  At at;
  int extent;
  bool along_k;
};
template <class At>
__device__ Operand<At> operand_of(int extent, bool along_k, At at) {
  return {at, extent, along_k};
}

/// The strip k, k + 1, ... of an operand's tile: strip[i][k], 0 outside.
template <class At>
__device__ void load_strip(const Operand<At>& o, int first, int k, int depth,
                           float (&strip)[side][pitch]) {
#pragma unroll
  for (int turn = 0; turn < side * side / block_threads; ++turn) {
    const int i = static_cast<int>(threadIdx.x) + turn * block_threads;
    const int down = o.along_k ? i / side : i % side;
    const int deep = o.along_k ? i % side : i / side;
    const bool inside = first + down < o.extent && k + deep < depth;
    strip[down][deep] = inside ? o.at(first + down, k + deep) : 0.0f;
  }
}

/// sums[j] = sum over k of a(row, k) b(column, k) for this thread's rows of the tile, and
/// a_sums[j] = sum over k of a(row, k).
template <class A, class B>
__device__ void tile_product(const Operand<A>& a, const Operand<B>& b, int row, int column,
                             int depth, float (&sums)[rows_each], float (&a_sums)[rows_each]) {
  __shared__ alignas(16) float a_strip[side][pitch];
  __shared__ alignas(16) float b_strip[side][pitch];
  const int tx = static_cast<int>(threadIdx.x) % side, ty = static_cast<int>(threadIdx.x) / side;
  for (int k = 0; k < depth; k += side) {
    __syncthreads();  // the last strips are read
    load_strip(a, row, k, depth, a_strip);
    load_strip(b, column, k, depth, b_strip);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < side; i += 4) {
      const float4 of_b = *reinterpret_cast<const float4*>(&b_strip[tx][i]);
#pragma unroll
      for (int j = 0; j < rows_each; ++j) {
        const float4 of_a = *reinterpret_cast<const float4*>(&a_strip[ty + j * rows_between][i]);
        sums[j] = fmaf(of_a.x, of_b.x, sums[j]);
        sums[j] = fmaf(of_a.y, of_b.y, sums[j]);
        sums[j] = fmaf(of_a.z, of_b.z, sums[j]);
        sums[j] = fmaf(of_a.w, of_b.w, sums[j]);
        a_sums[j] += of_a.x + of_a.y + of_a.z + of_a.w;
      }
    }
  }
}

/// The geometry in 32 bits.
struct SmallLinear {
  int rows, in, out;
  ActivationSpec activation;
};

int tiles(int64_t extent) {
  return static_cast<int>((extent + side - 1) / side);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    forward_kernel(SmallLinear g, const T* x, const T* w, const T* b, T* y) {
  wait_for_previous();
  const int row = static_cast<int>(blockIdx.y) * side, column = static_cast<int>(blockIdx.x) * side;
  float sums[rows_each] = {}, unused[rows_each] = {};
  tile_product(operand_of(g.rows, true, [=](int r, int i) { return to_f32(x[r * g.in + i]); }),
               operand_of(g.out, true, [=](int o, int i) { return to_f32(w[o * g.in + i]); }), row,
               column, g.in, sums, unused);
  const int o = column + static_cast<int>(threadIdx.x) % side;
  if (o >= g.out) return;
  const float bias = b ? to_f32(b[o]) : 0.0f;
#pragma unroll
  for (int j = 0; j < rows_each; ++j) {
    const int r = row + static_cast<int>(threadIdx.x) / side + j * rows_between;
    if (r < g.rows) y[r * g.out + o] = from_f32<T>(activate(g.activation, sums[j] + bias));
  }
}

/// Blocks below `dx_tiles` make dx (rows, in), the others dw (out, in) and db (out).
template <class T>
__global__ void __launch_bounds__(block_threads)
    backward_kernel(SmallLinear g, int dx_tiles, const T* x, const T* w, const T* y, const T* dy,
                    T* dx, T* dw, T* db) {
  wait_for_previous();
  const auto dz = [=](int r, int o) {
    const int at = r * g.out + o;
    const float slope = y ? activation_slope(g.activation, to_f32(y[at])) : 1.0f;
    return slope * to_f32(dy[at]);
  };
  const bool makes_dx = static_cast<int>(blockIdx.x) < dx_tiles;
  const int tile = static_cast<int>(blockIdx.x) - (makes_dx ? 0 : dx_tiles);
  const int across = (g.in + side - 1) / side;
  const int row = tile / across * side, column = tile % across * side;
  float sums[rows_each] = {}, a_sums[rows_each] = {};
  if (makes_dx) {
    tile_product(operand_of(g.rows, true, dz),
                 operand_of(g.in, false, [=](int i, int o) { return to_f32(w[o * g.in + i]); }),
                 row, column, g.out, sums, a_sums);
  } else {
    tile_product(
        operand_of(g.out, false, [=](int o, int r) { return dz(r, o); }),
        operand_of(dw ? g.in : 0, false, [=](int i, int r) { return to_f32(x[r * g.in + i]); }),
        row, column, g.rows, sums, a_sums);
  }
  const int i = column + static_cast<int>(threadIdx.x) % side;
#pragma unroll
  for (int j = 0; j < rows_each; ++j) {
    const int down = row + static_cast<int>(threadIdx.x) / side + j * rows_between;
    if (makes_dx) {
      if (down < g.rows && i < g.in) dx[down * g.in + i] = from_f32<T>(sums[j]);
    } else if (down < g.out) {
      if (dw && i < g.in) dw[down * g.in + i] = from_f32<T>(sums[j]);
      if (db && i == 0) db[down] = from_f32<T>(a_sums[j]);
    }
  }
}

SmallLinear small(const LinearGeometry& g) {
  return {.rows = static_cast<int>(g.rows),
          .in = static_cast<int>(g.in),
          .out = static_cast<int>(g.out),
          .activation = g.activation};
}

}  // namespace

void small_linear(const Context& context, const LinearGeometry& g, const void* x, const void* w,
                  const void* b, void* y) {
  const dim3 grid(static_cast<unsigned>(tiles(g.out)), static_cast<unsigned>(tiles(g.rows)));
  visit_real(g.dtype, [&]<class T>() {
    launch_early(context, grid, block_threads, forward_kernel<T>, small(g),
                 static_cast<const T*>(x), static_cast<const T*>(w), static_cast<const T*>(b),
                 static_cast<T*>(y));
  });
  check_launch("small dense layer");
}

void small_linear_backward(const Context& context, const LinearGeometry& g, const void* x,
                           const void* w, const void* y, const void* dy, void* dx, void* dw,
                           void* db) {
  const int dx_tiles = dx ? tiles(g.rows) * tiles(g.in) : 0;
  const int dw_tiles = dw || db ? tiles(g.out) * tiles(g.in) : 0;
  const auto blocks = static_cast<unsigned>(dx_tiles + dw_tiles);
  if (blocks == 0) return;
  const void* const output = g.activation.kind == Activation::none ? nullptr : y;
  visit_real(g.dtype, [&]<class T>() {
    launch_early(context, blocks, block_threads, backward_kernel<T>, small(g), dx_tiles,
                 static_cast<const T*>(x), static_cast<const T*>(w), static_cast<const T*>(output),
                 static_cast<const T*>(dy), static_cast<T*>(dx), static_cast<T*>(dw),
                 static_cast<T*>(db));
  });
  check_launch("small dense layer's gradients");
}

}  // namespace whisker::cuda
