// Gemms and the dense layer on cuBLASLt; small layers have kernels of their own. Without an
// activation the epilogue of the weight gradient's gemm computes the bias gradient.
//
// Small matrices go in tiles of 8x32: one block per tile, one thread per element, strips of 32
// along k of both operands in shared memory, f32 sums in order. Larger tiles would read less but
// take longer: small networks are bound by the latency of consecutive kernels. Backward, some
// blocks compute tiles of dx, the others tiles of dw; each computes dz = f'(y) dy while it loads
// it.
#include "core/backend/gemm.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <optional>

namespace whisker::cuda {
namespace {

constexpr int tile_columns = 32;  // also the length of a strip along k
constexpr int tile_rows = block_threads / tile_columns;

int tiles(int64_t extent, int size) {
  return static_cast<int>((extent + size - 1) / size);
}

/// An operand's elements: at(i, k), i along the tile. `along_k`: contiguous along k.
template <class At>
struct TileOperand {
  int extent;
  bool along_k;
  At at;
};

// A multiple of 16 bytes, so that one load reads four values of k, and free of bank conflicts.
constexpr int strip_pitch = tile_columns + 4;

/// The strip k, k + 1, ... of an operand's tile: strip[i][k], 0 outside.
template <class At, int Rows>
__device__ void load_strip(const TileOperand<At>& o, int first, int k, int depth,
                           float (&strip)[Rows][strip_pitch]) {
#pragma unroll
  for (int turn = 0; turn < Rows * tile_columns / block_threads; ++turn) {
    const int i = static_cast<int>(threadIdx.x) + turn * block_threads;
    const int down = o.along_k ? i / tile_columns : i % Rows;
    const int deep = o.along_k ? i % tile_columns : i / Rows;
    const bool inside = first + down < o.extent && k + deep < depth;
    strip[down][deep] = inside ? o.at(first + down, k + deep) : 0.0f;
  }
}

/// This thread's element of a tile, and the sum of its row of `a`.
struct TileSums {
  float sum = 0, row = 0;
};

/// sum = a(row, :) b(column, :)^T for this thread's row and column of the tile.
template <class A, class B>
__device__ TileSums tile_gemm(const TileOperand<A>& a, const TileOperand<B>& b, int row, int column,
                              int depth) {
  __shared__ alignas(16) float a_strip[tile_rows][strip_pitch];
  __shared__ alignas(16) float b_strip[tile_columns][strip_pitch];
  const int tx = static_cast<int>(threadIdx.x) % tile_columns;
  const int ty = static_cast<int>(threadIdx.x) / tile_columns;
  TileSums sums;
  for (int k = 0; k < depth; k += tile_columns) {
    __syncthreads();  // all threads have read the previous strips
    load_strip(a, row, k, depth, a_strip);
    load_strip(b, column, k, depth, b_strip);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile_columns; i += 4) {
      const float4 of_a = *reinterpret_cast<const float4*>(&a_strip[ty][i]);
      const float4 of_b = *reinterpret_cast<const float4*>(&b_strip[tx][i]);
      sums.sum = fmaf(of_a.x, of_b.x, sums.sum);
      sums.sum = fmaf(of_a.y, of_b.y, sums.sum);
      sums.sum = fmaf(of_a.z, of_b.z, sums.sum);
      sums.sum = fmaf(of_a.w, of_b.w, sums.sum);
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

template <class T>
__global__ void __launch_bounds__(block_threads)
    forward_kernel(SmallLinear g, const T* x, const T* w, const T* b, T* y) {
  wait_for_previous();
  const int row = static_cast<int>(blockIdx.y) * tile_rows;
  const int column = static_cast<int>(blockIdx.x) * tile_columns;
  const float sum =
      tile_gemm(TileOperand{g.rows, true, [=](int r, int i) { return to_f32(x[r * g.in + i]); }},
                TileOperand{g.out, true, [=](int o, int i) { return to_f32(w[o * g.in + i]); }},
                row, column, g.in)
          .sum;
  const int r = row + static_cast<int>(threadIdx.x) / tile_columns;
  const int o = column + static_cast<int>(threadIdx.x) % tile_columns;
  if (r >= g.rows || o >= g.out) return;
  y[r * g.out + o] = from_f32<T>(activate(g.activation, sum + (b ? to_f32(b[o]) : 0.0f)));
}

/// Blocks below `dx_tiles` compute dx (rows, in), the others dw (out, in) and db (out).
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
  const bool computes_dx = static_cast<int>(blockIdx.x) < dx_tiles;
  const int tile = static_cast<int>(blockIdx.x) - (computes_dx ? 0 : dx_tiles);
  const int across = (g.in + tile_columns - 1) / tile_columns;
  const int row = tile / across * tile_rows, column = tile % across * tile_columns;
  const int down = row + static_cast<int>(threadIdx.x) / tile_columns;
  const int i = column + static_cast<int>(threadIdx.x) % tile_columns;
  if (computes_dx) {
    const float sum =
        tile_gemm(TileOperand{g.rows, true, dz},
                  TileOperand{g.in, false, [=](int c, int o) { return to_f32(w[o * g.in + c]); }},
                  row, column, g.out)
            .sum;
    if (down < g.rows && i < g.in) dx[down * g.in + i] = from_f32<T>(sum);
    return;
  }
  const TileSums sums = tile_gemm(
      TileOperand{g.out, false, [=](int o, int r) { return dz(r, o); }},
      TileOperand{dw ? g.in : 0, false, [=](int c, int r) { return to_f32(x[r * g.in + c]); }}, row,
      column, g.rows);
  if (down >= g.out) return;
  if (dw && i < g.in) dw[down * g.in + i] = from_f32<T>(sums.sum);
  if (db && i == 0) db[down] = from_f32<T>(sums.row);
}

SmallLinear small(const LinearGeometry& g) {
  return {.rows = static_cast<int>(g.rows),
          .in = static_cast<int>(g.in),
          .out = static_cast<int>(g.out),
          .activation = g.activation};
}

// More matrices in one call than the libraries are tested with go in several.
constexpr int64_t most_batches = 65535;

/// True where the kernels above are faster than library gemms, by fewer launches: every extent is a
/// few tiles at most.
bool is_small(const LinearGeometry& g) {
  constexpr int64_t most = 128;
  return g.rows <= most && g.in <= most && g.out <= most;
}
/// True where the gradients' kernel is faster: also for few outputs, as in a network's last layer,
/// where libraries launch three kernels.
bool has_small_gradients(const LinearGeometry& g) {
  return is_small(g) || (g.rows <= 256 && g.in <= 2048 && g.out <= 32);
}

char* advance(const Tensor& tensor, int64_t elements) {
  return static_cast<char*>(tensor.raw()) +
         elements * static_cast<int64_t>(size_of(tensor.dtype()));
}

class Gemms final : public GemmKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override {
    context_.enter();
    for (int64_t first = 0; first < g.batch; first += most_batches) {
      const GemmRequest request{.dtype = y.dtype(),
                                .batch = std::min(g.batch - first, most_batches),
                                .m = g.m,
                                .n = g.n,
                                .k = g.k,
                                .transpose_a = g.transpose_a,
                                .transpose_b = g.transpose_b,
                                .a_stride = g.a_batch_stride,
                                .b_stride = g.b_batch_stride,
                                .tf32 = tf32()};
      gemms_.run(request, {.a = advance(a, first * g.a_batch_stride),
                           .b = advance(b, first * g.b_batch_stride),
                           .y = advance(y, first * g.m * g.n)});
    }
  }

  void linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) override {
    context_.enter();
    if (is_small(g)) return small_linear(g, in, y);
    void* const b = g.bias ? in.b.raw() : nullptr;
    gemms_.linear(g, tf32(), {.a = in.x.raw(), .b = in.w.raw(), .y = y.raw(), .bias = b});
  }

  void linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    context_.enter();
    if (has_small_gradients(g)) return small_linear_backward(g, saved, dy, out);
    // dz (rows, out) = f'(z) dy; dy itself without an activation.
    const bool active = g.activation.kind != Activation::none;
    const void* dz = dy.raw();
    std::optional<Scratch> scratch;
    // The bias gradient is in the epilogue where no activation lies between dy and the gemm.
    const bool together = !active && out.dw.defined() && out.db.defined();
    if (!together) {
      if (active && (out.dx.defined() || out.dw.defined())) {
        dz = scratch.emplace(allocator_, dy.bytes()).data();
      }
      output_gradient({.rows = g.rows, .channels = g.out, .dtype = g.dtype}, g.activation,
                      active ? saved.y.raw() : nullptr, dy.raw(),
                      scratch ? scratch->data() : nullptr, pointer(out.db), context_, allocator_);
    }
    if (out.dw.defined()) {  // dw (out,in) = dz^T (rows,out) x (rows,in)
      gemms_.run({.dtype = g.dtype,
                  .m = g.out,
                  .n = g.in,
                  .k = g.rows,
                  .transpose_a = true,
                  .row_sums = together,
                  .tf32 = tf32()},
                 {.a = dz,
                  .b = saved.x.raw(),
                  .y = out.dw.raw(),
                  .bias = together ? out.db.raw() : nullptr});
    }
    if (out.dx.defined()) {
      gemms_.run({.dtype = g.dtype, .m = g.rows, .n = g.in, .k = g.out, .tf32 = tf32()},
                 {.a = dz, .b = saved.w.raw(), .y = out.dx.raw()});
    }
  }

 private:
  void small_linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) {
    const dim3 grid(static_cast<unsigned>(tiles(g.out, tile_columns)),
                    static_cast<unsigned>(tiles(g.rows, tile_rows)));
    const Tensor& b = g.bias ? in.b : no_tensor;
    visit_real(g.dtype, [&]<class T>() {
      launch_pdl(context_, grid, block_threads, forward_kernel<T>, small(g), in.x, in.w, b, y);
    });
  }

  void small_linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                             const AffineGrads& out) {
    const bool weights = out.dw.defined() || out.db.defined();
    const int across = tiles(g.in, tile_columns);
    const int dx_tiles = out.dx.defined() ? tiles(g.rows, tile_rows) * across : 0;
    const int dw_tiles = weights ? tiles(g.out, tile_rows) * across : 0;
    const auto blocks = static_cast<unsigned>(dx_tiles + dw_tiles);
    if (blocks == 0) return;
    const Tensor& output = g.activation.kind == Activation::none ? no_tensor : saved.y;
    visit_real(g.dtype, [&]<class T>() {
      launch_pdl(context_, blocks, block_threads, backward_kernel<T>, small(g), dx_tiles, saved.x,
                 saved.w, output, dy, out.dx, out.dw, out.db);
    });
  }

  GemmAlgorithms& gemms_ = *device_.gemms;
};

}  // namespace

std::shared_ptr<GemmKernels> make_gemm(CudaDevice& device) {
  return std::make_shared<Gemms>(device);
}

}  // namespace whisker::cuda
