// Memory-bound kernels, small beside the gemms of the cells.
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/recurrent/recurrent_kernels.h"

#include <algorithm>

namespace whisker::cuda::kernels {
namespace {

// Saturates sigmoid and tanh in every dtype, and is far below the largest f16.
constexpr float flag_weight = 10000;

// A block of reorder_steps_kernel: rows times neighbouring columns.
constexpr int reordered_rows = 8;
constexpr int reordered_columns = block_threads / reordered_rows;

/// Steps of sequence n, kept within [0, steps].
__device__ int64_t length_of(const Sequences& s, int64_t n) {
  const int64_t length = s.lengths[n];
  return length < 0 ? 0 : length > s.steps ? s.steps : length;
}

// A thread computes every fourth column of its rows (step, sequence).
template <class T>
__global__ void __launch_bounds__(block_threads)
    reorder_steps_kernel(Sequences s, ReorderedSteps r) {
  const int64_t step = int64_t{gridDim.y} * reordered_columns;
  for (int64_t row = int64_t{blockIdx.x} * reordered_rows + threadIdx.y; row < s.steps * s.batch;
       row += int64_t{gridDim.x} * reordered_rows) {
    const int64_t t = row / s.batch, n = row - t * s.batch;
    const int64_t length = length_of(s, n);
    const int64_t mirrored = (length - 1 - t) * s.batch + n;  // the row of the reverse order
    const T* const x =
        static_cast<const T*>(r.x.data) + (s.backwards ? mirrored : row) * r.x.row + r.x.first;
    const T* const backward = static_cast<const T*>(r.backward) + mirrored * r.x.row + r.x.first;
    const T* const last = static_cast<const T*>(r.last) + n * r.columns;
    T* const y = static_cast<T*>(r.y.data) + row * r.y.row + r.y.first;
#pragma unroll 1  // four at most
    for (int64_t column = int64_t{blockIdx.y} * reordered_columns + threadIdx.x;
         column < r.columns + r.flag_columns; column += step) {
      float value = 0;
      if (t >= length) {
        value = r.flag_columns > 0 && column == r.columns ? 1.0f : 0.0f;
      } else if (column < r.columns) {
        if (r.x.data) value = to_f32(x[column]);
        if (r.backward) value += to_f32(backward[column]);
        if (r.last && t == length - 1) value += to_f32(last[column]);
      }
      y[column] = from_f32<T>(value);
    }
  }
}

// The weight of the flag for each gate; see Note [Flagged steps].
__device__ float weight_of_flag(RecurrentKind kind, int64_t gate) {
  switch (kind) {
    case RecurrentKind::lstm:  // i f g o
      return gate == 0 ? -flag_weight : gate == 1 ? flag_weight : 0.0f;
    case RecurrentKind::gru:  // r z n
      return gate == 1 ? flag_weight : 0.0f;
    case RecurrentKind::rnn_tanh:
    case RecurrentKind::rnn_relu:
      break;
  }
  return -flag_weight;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    flag_weights_kernel(RecurrentKind kind, int64_t hidden, int64_t rows, const T* w_ih,
                        int64_t features, T* padded, int64_t width) {
  for (int64_t i = first_item(); i < rows * width; i += item_step()) {
    const int64_t row = i / width, column = i % width;
    T value = from_f32<T>(column == features ? weight_of_flag(kind, row / hidden) : 0.0f);
    if (column < features) value = w_ih[row * features + column];
    padded[i] = value;
  }
}

// A block per sequence.
template <class T>
__global__ void __launch_bounds__(block_threads)
    last_results_kernel(Sequences s, const T* results, const T* initial, T* last, int64_t extent) {
  const int64_t n = blockIdx.x, length = length_of(s, n);
  if (length > 0 && !results) return;
  const T* const from = length > 0 ? results + ((length - 1) * s.batch + n) * extent
                        : initial  ? initial + n * extent
                                   : nullptr;
  for (int64_t column = threadIdx.x; column < extent; column += block_threads) {
    last[n * extent + column] = from ? from[column] : from_f32<T>(0);
  }
}

}  // namespace

void reorder_steps(cudaStream_t stream, const Sequences& s, const ReorderedSteps& r) {
  constexpr int columns_per_thread = 4;
  const int64_t width = r.columns + r.flag_columns;
  const dim3 grid(grid_for(s.steps * s.batch, reordered_rows),
                  std::min(grid_for(width, columns_per_thread * reordered_columns), 1024u));
  visit_real(s.dtype, [&]<class T>() {
    launch_kernel(stream, "reorder_steps", {grid, dim3(reordered_columns, reordered_rows)},
                  reorder_steps_kernel<T>, s, r);
  });
}

void flag_weights(cudaStream_t stream, RecurrentKind kind, DType dtype, int64_t hidden,
                  const void* w_ih, int64_t features, void* padded, int64_t width) {
  const int64_t rows = RecurrentGeometry{.kind = kind}.gates() * hidden;
  visit_real(dtype, [&]<class T>() {
    launch_kernel(stream, "flag_weights", grid_for(rows * width), flag_weights_kernel<T>, kind,
                  hidden, rows, w_ih, features, padded, width);
  });
}

void last_results(cudaStream_t stream, const Sequences& s, const void* results, const void* initial,
                  void* last, int64_t extent) {
  if (s.batch == 0) return;
  visit_real(s.dtype, [&]<class T>() {
    launch_kernel(stream, "last_results", static_cast<unsigned>(s.batch), last_results_kernel<T>, s,
                  results, initial, last, extent);
  });
}

}  // namespace whisker::cuda::kernels
