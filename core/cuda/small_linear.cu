// Products in tiles of 8x32, a block each and a thread per element, with both operands' strips of
// 32 in shared memory; sums in f32, in order. Backward, some blocks make tiles of dx and the others
// tiles of dw; all of them make dz = f'(y) dy while they load it. A step of such layers is a chain
// of latencies: larger tiles would read less and take longer.
#include "core/cuda/activations.cuh"
#include "core/cuda/check.h"
#include "core/cuda/early_launch.cuh"
#include "core/cuda/launch.h"
#include "core/cuda/small_linear.h"
#include "core/cuda/types.cuh"

namespace whisker::cuda {
namespace {

constexpr int side = 32;                         // columns of a tile, and depth of a strip
constexpr int tile_rows = block_threads / side;  // a thread has one element of the tile
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
template <class At, int Rows>
__device__ void load_strip(const Operand<At>& o, int first, int k, int depth,
                           float (&strip)[Rows][pitch]) {
#pragma unroll
  for (int turn = 0; turn < Rows * side / block_threads; ++turn) {
    const int i = static_cast<int>(threadIdx.x) + turn * block_threads;
    const int down = o.along_k ? i / side : i % Rows;
    const int deep = o.along_k ? i % side : i / Rows;
    const bool inside = first + down < o.extent && k + deep < depth;
    strip[down][deep] = inside ? o.at(first + down, k + deep) : 0.0f;
  }
}

/// This thread's element of a tile, and the sum of its row of `a`.
struct TileSums {
  float product = 0, row = 0;
};

/// product = sum over k of a(row, k) b(column, k) for this thread's row and column of the tile.
template <class A, class B>
__device__ TileSums tile_product(const Operand<A>& a, const Operand<B>& b, int row, int column,
                                 int depth) {
  __shared__ alignas(16) float a_strip[tile_rows][pitch];
  __shared__ alignas(16) float b_strip[side][pitch];
  const int tx = static_cast<int>(threadIdx.x) % side, ty = static_cast<int>(threadIdx.x) / side;
  TileSums sums;
  for (int k = 0; k < depth; k += side) {
    __syncthreads();  // the last strips are read
    load_strip(a, row, k, depth, a_strip);
    load_strip(b, column, k, depth, b_strip);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < side; i += 4) {
      const float4 of_a = *reinterpret_cast<const float4*>(&a_strip[ty][i]);
      const float4 of_b = *reinterpret_cast<const float4*>(&b_strip[tx][i]);
      sums.product = fmaf(of_a.x, of_b.x, sums.product);
      sums.product = fmaf(of_a.y, of_b.y, sums.product);
      sums.product = fmaf(of_a.z, of_b.z, sums.product);
      sums.product = fmaf(of_a.w, of_b.w, sums.product);
      sums.row += of_a.x + of_a.y + of_a.z + of_a.w;
    }
  }
  return sums;
}

/// The geometry in 32 bits.
struct SmallLinear {
  int rows, in, out;
  ActivationSpec activation;
};

int tiles(int64_t extent, int size) {
  return static_cast<int>((extent + size - 1) / size);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    forward_kernel(SmallLinear g, const T* x, const T* w, const T* b, T* y) {
  wait_for_previous();
  const int row = static_cast<int>(blockIdx.y) * tile_rows;
  const int column = static_cast<int>(blockIdx.x) * side;
  const float sum =
      tile_product(operand_of(g.rows, true, [=](int r, int i) { return to_f32(x[r * g.in + i]); }),
                   operand_of(g.out, true, [=](int o, int i) { return to_f32(w[o * g.in + i]); }),
                   row, column, g.in)
          .product;
  const int r = row + static_cast<int>(threadIdx.x) / side;
  const int o = column + static_cast<int>(threadIdx.x) % side;
  if (r >= g.rows || o >= g.out) return;
  y[r * g.out + o] = from_f32<T>(activate(g.activation, sum + (b ? to_f32(b[o]) : 0.0f)));
}

/// Blocks below `dx_tiles` make dx (rows, in), the others dw (out, in) and db (out).
template <class T>
__global__ void __launch_bounds__(block_threads)
    backward_kernel(SmallLinear g, int dx_tiles, const T* x, const T* w, const T* y, const T* dy,
                    T* dx, T* dw, T* db) {
  wait_for_previous();
  const auto dz = [=](int r, int o) {
    const int at = r * g.out + o;
    const float d = to_f32(dy[at]);
    return y ? activation_gradient(g.activation, to_f32(y[at]), d) : d;
  };
  const bool makes_dx = static_cast<int>(blockIdx.x) < dx_tiles;
  const int tile = static_cast<int>(blockIdx.x) - (makes_dx ? 0 : dx_tiles);
  const int across = (g.in + side - 1) / side;
  const int row = tile / across * tile_rows, column = tile % across * side;
  const int down = row + static_cast<int>(threadIdx.x) / side;
  const int i = column + static_cast<int>(threadIdx.x) % side;
  if (makes_dx) {
    const float sum =
        tile_product(operand_of(g.rows, true, dz),
                     operand_of(g.in, false, [=](int c, int o) { return to_f32(w[o * g.in + c]); }),
                     row, column, g.out)
            .product;
    if (down < g.rows && i < g.in) dx[down * g.in + i] = from_f32<T>(sum);
    return;
  }
  const TileSums sums = tile_product(
      operand_of(g.out, false, [=](int o, int r) { return dz(r, o); }),
      operand_of(dw ? g.in : 0, false, [=](int c, int r) { return to_f32(x[r * g.in + c]); }), row,
      column, g.rows);
  if (down >= g.out) return;
  if (dw && i < g.in) dw[down * g.in + i] = from_f32<T>(sums.product);
  if (db && i == 0) db[down] = from_f32<T>(sums.row);
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
  const dim3 grid(static_cast<unsigned>(tiles(g.out, side)),
                  static_cast<unsigned>(tiles(g.rows, tile_rows)));
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
  const int dx_tiles = dx ? tiles(g.rows, tile_rows) * tiles(g.in, side) : 0;
  const int dw_tiles = dw || db ? tiles(g.out, tile_rows) * tiles(g.in, side) : 0;
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
