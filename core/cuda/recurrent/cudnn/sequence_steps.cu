// One thread per element of the result; its index splits into step, sequence and column. All
// kernels are memory-bound and small beside the gemms of the cells.
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/recurrent/cudnn/sequence_steps.h"

namespace whisker::cuda::kernels {
namespace {

// Saturates sigmoid and tanh in every dtype, and is far below the largest f16.
constexpr float flag_weight = 10000;

struct Position {
  int64_t t, n, column;
  int64_t length;  // of sequence n, kept within [0, steps]
};

__device__ int64_t length_of(const Sequences& s, int64_t n) {
  const int64_t length = s.lengths[n];
  return length < 0 ? 0 : length > s.steps ? s.steps : length;
}

// Element i of (steps, batch, width).
__device__ Position position(const Sequences& s, int64_t i, int64_t width) {
  const int64_t row = i / width;
  const int64_t n = row % s.batch;
  return {row / s.batch, n, i % width, length_of(s, n)};
}

// Maps a valid step between the order of time and the order of the cell: its row in (steps, batch).
__device__ int64_t other_row(const Sequences& s, bool backwards, const Position& p) {
  return (backwards ? p.length - 1 - p.t : p.t) * s.batch + p.n;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    flag_steps_kernel(Sequences s, const T* x, int64_t features, T* y, int64_t width) {
  const int64_t count = s.steps * s.batch * width;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Position p = position(s, i, width);
    T value = from_f32<T>(p.t >= p.length && p.column == features ? 1.0f : 0.0f);
    if (p.t < p.length && p.column < features) {
      value = x[other_row(s, s.backwards, p) * features + p.column];
    }
    y[i] = value;
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

template <class T>
__global__ void __launch_bounds__(block_threads)
    scatter_results_kernel(Sequences s, const T* results, int64_t extent, T* y, int64_t row,
                           int64_t first) {
  const int64_t count = s.steps * s.batch * extent;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Position p = position(s, i, extent);
    T value = from_f32<T>(0.0f);
    if (p.t < p.length) value = results[other_row(s, s.backwards, p) * extent + p.column];
    y[(p.t * s.batch + p.n) * row + first + p.column] = value;
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    last_results_kernel(Sequences s, const T* results, const T* initial, T* last, int64_t extent) {
  for (int64_t i = first_item(); i < s.batch * extent; i += item_step()) {
    const int64_t n = i / extent, length = length_of(s, n);
    T value = initial ? initial[i] : from_f32<T>(0.0f);
    if (length > 0) value = results[((length - 1) * s.batch + n) * extent + i % extent];
    last[i] = value;
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    arriving_gradients_kernel(Sequences s, const T* dy, int64_t row, int64_t first, const T* dlast,
                              T* dresults, int64_t extent) {
  const int64_t count = s.steps * s.batch * extent;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Position p = position(s, i, extent);
    float sum = 0;
    if (dy && p.t < p.length) {
      sum = to_f32(dy[other_row(s, s.backwards, p) * row + first + p.column]);
    }
    if (dlast && p.t == p.length - 1) sum += to_f32(dlast[p.n * extent + p.column]);
    dresults[i] = from_f32<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    input_gradients_kernel(Sequences s, const T* forward, const T* backward, int64_t width, T* dx,
                           int64_t features) {
  const int64_t count = s.steps * s.batch * features;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Position p = position(s, i, features);
    float sum = 0;
    if (p.t < p.length) {
      sum = to_f32(forward[other_row(s, false, p) * width + p.column]);
      if (backward) sum += to_f32(backward[other_row(s, true, p) * width + p.column]);
    }
    dx[i] = from_f32<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    pass_gradients_kernel(Sequences s, const T* dlast, T* dinitial, int64_t extent) {
  for (int64_t i = first_item(); i < s.batch * extent; i += item_step()) {
    if (length_of(s, i / extent) > 0) continue;
    dinitial[i] = dlast ? dlast[i] : from_f32<T>(0.0f);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    clear_after_end_kernel(Sequences s, T* x, int64_t extent) {
  for (int64_t i = first_item(); i < s.steps * s.batch * extent; i += item_step()) {
    const Position p = position(s, i, extent);
    if (p.t >= p.length) x[i] = from_f32<T>(0);
  }
}

}  // namespace

void flag_steps(cudaStream_t stream, const Sequences& s, const void* x, int64_t features, void* y,
                int64_t width) {
  visit_real(s.dtype, [&]<class T>() {
    flag_steps_kernel<<<grid_for(s.steps * s.batch * width), block_threads, 0, stream>>>(
        s, static_cast<const T*>(x), features, static_cast<T*>(y), width);
  });
  check_launch("flag_steps");
}

void flag_weights(cudaStream_t stream, RecurrentKind kind, DType dtype, int64_t hidden,
                  const void* w_ih, int64_t features, void* padded, int64_t width) {
  const int64_t rows = RecurrentGeometry{.kind = kind}.gates() * hidden;
  visit_real(dtype, [&]<class T>() {
    flag_weights_kernel<<<grid_for(rows * width), block_threads, 0, stream>>>(
        kind, hidden, rows, static_cast<const T*>(w_ih), features, static_cast<T*>(padded), width);
  });
  check_launch("flag_weights");
}

void scatter_results(cudaStream_t stream, const Sequences& s, const void* results, int64_t extent,
                     void* y, int64_t row, int64_t first) {
  visit_real(s.dtype, [&]<class T>() {
    scatter_results_kernel<<<grid_for(s.steps * s.batch * extent), block_threads, 0, stream>>>(
        s, static_cast<const T*>(results), extent, static_cast<T*>(y), row, first);
  });
  check_launch("scatter_results");
}

void last_results(cudaStream_t stream, const Sequences& s, const void* results, const void* initial,
                  void* last, int64_t extent) {
  visit_real(s.dtype, [&]<class T>() {
    last_results_kernel<<<grid_for(s.batch * extent), block_threads, 0, stream>>>(
        s, static_cast<const T*>(results), static_cast<const T*>(initial), static_cast<T*>(last),
        extent);
  });
  check_launch("last_results");
}

void arriving_gradients(cudaStream_t stream, const Sequences& s, const void* dy, int64_t row,
                        int64_t first, const void* dlast, void* dresults, int64_t extent) {
  visit_real(s.dtype, [&]<class T>() {
    arriving_gradients_kernel<<<grid_for(s.steps * s.batch * extent), block_threads, 0, stream>>>(
        s, static_cast<const T*>(dy), row, first, static_cast<const T*>(dlast),
        static_cast<T*>(dresults), extent);
  });
  check_launch("arriving_gradients");
}

void input_gradients(cudaStream_t stream, const Sequences& s, const void* forward,
                     const void* backward, int64_t width, void* dx, int64_t features) {
  visit_real(s.dtype, [&]<class T>() {
    input_gradients_kernel<<<grid_for(s.steps * s.batch * features), block_threads, 0, stream>>>(
        s, static_cast<const T*>(forward), static_cast<const T*>(backward), width,
        static_cast<T*>(dx), features);
  });
  check_launch("input_gradients");
}

void pass_gradients(cudaStream_t stream, const Sequences& s, const void* dlast, void* dinitial,
                    int64_t extent) {
  visit_real(s.dtype, [&]<class T>() {
    pass_gradients_kernel<<<grid_for(s.batch * extent), block_threads, 0, stream>>>(
        s, static_cast<const T*>(dlast), static_cast<T*>(dinitial), extent);
  });
  check_launch("pass_gradients");
}

void clear_after_end(cudaStream_t stream, const Sequences& s, void* x, int64_t extent) {
  visit_real(s.dtype, [&]<class T>() {
    clear_after_end_kernel<<<grid_for(s.steps * s.batch * extent), block_threads, 0, stream>>>(
        s, static_cast<T*>(x), extent);
  });
  check_launch("clear_after_end");
}

}  // namespace whisker::cuda::kernels
