// y = f(y + b), dz = f'(y) dy and the bias' gradient, over rows of channels (column_sums.cuh); and
// the same from the gradient of windows, whose winners take it.
#include "core/cuda/activations.cuh"
#include "core/cuda/check.h"
#include "core/cuda/column_sums.cuh"
#include "core/cuda/output_gradient.h"

#include <optional>

namespace whisker::cuda {
namespace {

template <class T, int N>
__global__ void bias_activation_kernel(int64_t packs, int64_t packs_per_row, ActivationSpec f,
                                       const T* b, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < packs; at += step) {
    Pack<T, N> value = reinterpret_cast<Pack<T, N>*>(y)[at];
    Pack<T, N> bias{};
    if (b) bias = reinterpret_cast<const Pack<T, N>*>(b)[at % packs_per_row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float z = to_f32(value.at[i]) + (b ? to_f32(bias.at[i]) : 0.0f);
      value.at[i] = from_f32<T>(activate(f, z));
    }
    reinterpret_cast<Pack<T, N>*>(y)[at] = value;
  }
}

/// f'(y) dy of one pack, which is added to `sum`, too.
template <class T, int N>
__device__ Pack<T, N> gradient_of(ActivationSpec f, const T* y, const T* dy, int64_t at,
                                  float (&sum)[N]) {
  const Pack<T, N> gradient = reinterpret_cast<const Pack<T, N>*>(dy)[at];
  Pack<T, N> output{};
  if (f.kind != Activation::none) output = reinterpret_cast<const Pack<T, N>*>(y)[at];
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float d = to_f32(gradient.at[i]) * activation_slope(f, to_f32(output.at[i]));
    sum[i] += d;
    result.at[i] = from_f32<T>(d);
  }
  return result;
}

/// dz may be null.
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    output_gradient_kernel(ColumnSums<T> g, ActivationSpec f, const T* __restrict__ y,
                           const T* __restrict__ dy, T* __restrict__ dz) {
  sum_columns<T, N>(g, [&](int64_t row, int64_t pack, float(&sum)[N]) {
    const int64_t at = row * g.packs + pack;
    const Pack<T, N> result = gradient_of<T, N>(f, y, dy, at, sum);
    if (dz) reinterpret_cast<Pack<T, N>*>(dz)[at] = result;
  });
}

/// Extents of a picture of 2x2 windows side by side.
struct Halves {
  unsigned h, w, h_half, w_half;
};

/// Rows are windows: dz (N, h, w, channels) is the window's gradient at its winner and 0 elsewhere,
/// also in an odd last row and column that no window sees.
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    window_gradient_kernel(ColumnSums<T> g, Halves p, ActivationSpec f, const T* __restrict__ y,
                           const T* __restrict__ dy, const uint8_t* __restrict__ marks,
                           T* __restrict__ dz) {
  sum_columns<T, N>(g, [&](int64_t row, int64_t pack, float(&sum)[N]) {
    const int64_t at = row * g.packs + pack;
    const auto winner = reinterpret_cast<const Pack<uint8_t, N>*>(marks)[at];
    const Pack<T, N> result = gradient_of<T, N>(f, y, dy, at, sum);
    const auto window = static_cast<unsigned>(row);
    const unsigned j = window % p.w_half, i = window / p.w_half % p.h_half;
    const unsigned picture = window / p.w_half / p.h_half;
    const unsigned rows = i + 1 == p.h_half ? p.h - 2 * i : 2;
    const unsigned columns = j + 1 == p.w_half ? p.w - 2 * j : 2;
    for (unsigned down = 0; down < rows; ++down) {
      for (unsigned across = 0; across < columns; ++across) {
        Pack<T, N> place;
#pragma unroll
        for (int c = 0; c < N; ++c) {
          const bool here = down < 2 && across < 2 && winner.at[c] == 2 * down + across;
          place.at[c] = here ? result.at[c] : from_f32<T>(0.0f);
        }
        const int64_t to = (int64_t{picture} * p.h + 2 * i + down) * p.w + 2 * j + across;
        reinterpret_cast<Pack<T, N>*>(dz)[to * g.packs + pack] = place;
      }
    }
  });
}

/// Calls fn.operator()<T, N>() with N elements per pack: 16 bytes of them where the rows and the
/// pointers allow.
template <class Fn>
void visit_packed(const RowsGeometry& g, std::initializer_list<const void*> pointers, Fn&& fn) {
  const bool aligned = std::all_of(pointers.begin(), pointers.end(), [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  });
  visit_real(g.dtype, [&]<class T>() {
    if (g.channels % pack_size<T> == 0 && aligned) {
      fn.template operator()<T, pack_size<T>>();
    } else {
      fn.template operator()<T, 1>();
    }
  });
}

/// Calls launch(columns, how) with the memory for sums into `db` (null: none).
template <class T, int N, class Launch>
void with_sums(const RowsGeometry& g, void* db, Context& context, Allocator& allocator,
               Launch&& launch) {
  const int64_t packs = g.channels / N;
  const ColumnLaunch how = column_launch(g.rows, packs, N, context.multiprocessors());
  std::optional<Scratch> sums;
  if (db && how.sums_bytes > 0) sums.emplace(allocator, how.sums_bytes);
  launch(ColumnSums<T>{.rows = g.rows,
                       .packs = packs,
                       .sums = sums ? sums->as<float>() : nullptr,
                       .result = static_cast<T*>(db),
                       .tickets = context.tickets()},
         how);
}

}  // namespace

void bias_activation(const RowsGeometry& g, ActivationSpec f, const void* b, void* y,
                     cudaStream_t stream) {
  if (!b && f.kind == Activation::none) return;
  visit_packed(g, {b, y}, [&]<class T, int N>() {
    const int64_t packs = g.rows * g.channels / N;
    bias_activation_kernel<T, N><<<grid_for(packs), block_threads, 0, stream>>>(
        packs, g.channels / N, f, static_cast<const T*>(b), static_cast<T*>(y));
  });
  check_launch("bias and activation");
}

void output_gradient(const RowsGeometry& g, ActivationSpec f, const void* y, const void* dy,
                     void* dz, void* db, Context& context, Allocator& allocator) {
  if (!dz && !db) return;
  const void* const output = f.kind == Activation::none ? nullptr : y;
  visit_packed(g, {output, dy, dz, db}, [&]<class T, int N>() {
    with_sums<T, N>(g, db, context, allocator, [&](ColumnSums<T> columns, ColumnLaunch how) {
      output_gradient_kernel<T, N><<<how.grid, how.block, how.shared_bytes, context.stream()>>>(
          columns, f, static_cast<const T*>(output), static_cast<const T*>(dy),
          static_cast<T*>(dz));
    });
  });
  check_launch("output gradient");
}

void window_gradient(const Pool2dGeometry& p, ActivationSpec f, const void* y, const void* dy,
                     const void* marks, void* dz, void* db, Context& context,
                     Allocator& allocator) {
  const RowsGeometry g{.rows = p.n * p.h_out * p.w_out, .channels = p.c, .dtype = p.dtype};
  const Halves halves{.h = static_cast<unsigned>(p.h),
                      .w = static_cast<unsigned>(p.w),
                      .h_half = static_cast<unsigned>(p.h_out),
                      .w_half = static_cast<unsigned>(p.w_out)};
  const void* const output = f.kind == Activation::none ? nullptr : y;
  visit_packed(g, {output, dy, marks, dz, db}, [&]<class T, int N>() {
    with_sums<T, N>(g, db, context, allocator, [&](ColumnSums<T> columns, ColumnLaunch how) {
      window_gradient_kernel<T, N><<<how.grid, how.block, how.shared_bytes, context.stream()>>>(
          columns, halves, f, static_cast<const T*>(output), static_cast<const T*>(dy),
          static_cast<const uint8_t*>(marks), static_cast<T*>(dz));
    });
  });
  check_launch("window gradient");
}

}  // namespace whisker::cuda
