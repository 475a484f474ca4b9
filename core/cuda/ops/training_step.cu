// The training step without the optimizer (optimizer.cu): counting batches, the norm of the
// gradients, the decision on the update, averages of weights. One thread calls the functions of
// core/backend/step_state.h; what changes from step to step is read from device memory.
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/ops/training_step.h"

namespace whisker::cuda::kernels {
namespace {

// G threads per row. counters: the ticket and the number of correct rows; both zero before and
// after.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    count_batch_kernel(StepRule rule, Batch b, StepState* state, uint32_t* counters) {
  wait_for_previous();
  constexpr int per_block = block_threads / G;
  const int lane = threadIdx.x % G;
  uint32_t correct = 0;
  for (int64_t turn = blockIdx.x; turn * per_block < b.rows; turn += gridDim.x) {
    const int64_t row = turn * per_block + threadIdx.x / G;
    if (row >= b.rows) continue;  // whole groups
    const T* logits = static_cast<const T*>(b.logits) + row * b.classes;
    const auto at = [&](int64_t c) { return to_f32(logits[c]); };
    const int64_t guess =
        b.classes == 1 ? int64_t{at(0) > 0}
                       : first_of<G>(largest_of<G>(b.classes, lane, at), b.classes, lane, at);
    correct += lane == 0 && guess == b.labels[row];
  }
  correct = group_sum<block_threads>(correct);
  if (threadIdx.x == 0) atomicAdd(counters + 1, correct);
  if (!is_last_block(counters, gridDim.x) || threadIdx.x != 0) return;
  const uint32_t all = atomicExch(counters + 1, 0);
  whisker::count_batch(*state, rule, {.loss = *b.loss, .correct = all, .rows = b.rows});
}

// A thread's part of the sum of squares of x (count).
template <class T>
__device__ double own_squares(const T* x, int64_t count) {
  constexpr int n = pack_size<T>;
  const int64_t packs = count / n;
  double own = 0;
  const auto add = [&](T element) {
    const auto value = static_cast<double>(to_f32(element));
    own = fma(value, value, own);
  };
  for (int64_t p = first_item(); p < packs; p += item_step()) {
    const Pack<T, n> pack = reinterpret_cast<const Pack<T, n>*>(x)[p];
#pragma unroll
    for (int k = 0; k < n; ++k) add(pack.at[k]);
  }
  const int64_t rest = packs * n + first_item();
  if (rest < count) add(x[rest]);
  return own;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    add_squares_kernel(const T* x, int64_t count, double* parts, uint32_t* ticket, double* sum) {
  double all;
  if (add_up(own_squares(x, count), parts, ticket, all)) *sum += all;
}

__global__ void begin_update_kernel(StepRule rule, StepState* state) {
  whisker::begin_update(*state, rule, sqrt(state->square_sum));
}

// Both of the above over both ranges of an arena; the second is f32 and may be empty.
template <class T>
__global__ void __launch_bounds__(block_threads)
    begin_pair_update_kernel(const T* first, int64_t first_count, const float* second,
                             int64_t second_count, double* parts, uint32_t* ticket, StepRule rule,
                             StepState* state) {
  wait_for_previous();
  const double own = own_squares(first, first_count) + own_squares(second, second_count);
  double all;
  if (!add_up(own, parts, ticket, all)) return;
  whisker::begin_update(*state, rule, sqrt(state->square_sum + all));
}

struct Average {
  float decay, rest;
  __device__ float operator()(float average, float value) const {
    return fmaf(decay, average, rest * value);
  }
};

// All blocks read the number of updates before the last one increments it.
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    moving_average_kernel(AverageUpdate u, uint32_t* ticket) {
  if (u.applies && !*u.applies) return;
  const double decay = average_decay(u.decay, u.warmup, *u.updates + 1);
  const Average f{static_cast<float>(decay), static_cast<float>(1 - decay)};
  const auto* value = static_cast<const T*>(u.value);
  auto* average = static_cast<T*>(u.average);
  const int64_t packs = u.count / N;
  for (int64_t p = first_item(); p < packs; p += item_step()) {
    auto& target = reinterpret_cast<Pack<T, N>*>(average)[p];
    target = map_pack<N, T>(f, target, reinterpret_cast<const Pack<T, N>*>(value)[p]);
  }
  const int64_t rest = packs * N + first_item();
  if (rest < u.count) {
    average[rest] = from_f32<T>(f(to_f32(average[rest]), to_f32(value[rest])));
  }
  if (is_last_block(ticket, gridDim.x) && threadIdx.x == 0) ++*u.updates;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    copy_if_kernel(const int32_t* condition, const T* source, T* target, int64_t count) {
  if (*condition == 0) return;
  for (int64_t i = first_item(); i < count; i += item_step()) target[i] = source[i];
}

template <class T>
__global__ void __launch_bounds__(block_threads) swap_kernel(T* a, T* b, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const T kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

// Calls run.operator()<T>(count): in 16-byte elements where addresses and size allow, else bytes.
template <class Run>
void with_wide_elements(const void* a, const void* b, int64_t bytes, const Run& run) {
  const auto address = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
  if (bytes == 0) return;
  if ((address | static_cast<uintptr_t>(bytes)) % 16 == 0) {
    run.template operator()<uint4>(bytes / 16);
  } else {
    run.template operator()<uint8_t>(bytes);
  }
}

}  // namespace

void count_batch(Context& context, const StepRule& rule, const Batch& batch, StepState* state) {
  visit_real(batch.dtype, [&]<class T>() {
    const auto run = [&]<int G>() {
      launch_pdl(context, grid_for(batch.rows * G), block_threads, count_batch_kernel<T, G>, rule,
                 batch, state, context.tickets());
    };
    if (batch.classes > 4) {
      run.template operator()<32>();
    } else {
      run.template operator()<1>();
    }
  });
  check_launch("count_batch");
}

void add_squares(Context& context, Allocator& allocator, DType dtype, const void* x, int64_t count,
                 double* sum) {
  visit_real(dtype, [&]<class T>() {
    const int64_t packs = (count + pack_size<T> - 1) / pack_size<T>;
    const unsigned blocks =
        std::min(grid_for(packs), static_cast<unsigned>(context.multiprocessors()) * 8);
    const Scratch parts(allocator, int64_t{blocks} * int64_t{sizeof(double)});
    add_squares_kernel<<<blocks, block_threads, 0, context.stream()>>>(
        static_cast<const T*>(x), count, parts.as<double>(), context.tickets(), sum);
  });
  check_launch("add_squares");
}

void begin_update(cudaStream_t stream, const StepRule& rule, StepState* state) {
  begin_update_kernel<<<1, 1, 0, stream>>>(rule, state);
  check_launch("begin_update");
}

void begin_pair_update(Context& context, Allocator& allocator, const OptimizerUpdate& first,
                       const OptimizerUpdate& second, const StepRule& rule, StepState* state) {
  visit_real(first.gradient_dtype, [&]<class T>() {
    const int64_t packs = std::max(first.count / pack_size<T>, second.count / pack_size<float>);
    const unsigned blocks =
        std::min(grid_for(packs), static_cast<unsigned>(context.multiprocessors()) * 8);
    const Scratch parts(allocator, int64_t{blocks} * int64_t{sizeof(double)});
    launch_pdl(context, blocks, block_threads, begin_pair_update_kernel<T>,
               static_cast<const T*>(first.gradient), first.count,
               static_cast<const float*>(second.gradient), second.count, parts.as<double>(),
               context.tickets(), rule, state);
  });
  check_launch("beginning an update");
}

void moving_average(Context& context, const AverageUpdate& u) {
  visit_real(u.dtype, [&]<class T>() {
    constexpr int n = pack_size<T>;
    const auto run = [&]<int N>() {
      const int64_t packs = (u.count + N - 1) / N;
      moving_average_kernel<T, N>
          <<<grid_for(packs), block_threads, 0, context.stream()>>>(u, context.tickets());
    };
    if (aligned_for<n>(static_cast<const T*>(u.value), static_cast<T*>(u.average))) {
      run.template operator()<n>();
    } else {
      run.template operator()<1>();
    }
  });
  check_launch("moving_average");
}

void copy_if(cudaStream_t stream, const int32_t* condition, const void* source, void* target,
             int64_t bytes) {
  with_wide_elements(source, target, bytes, [&]<class T>(int64_t count) {
    copy_if_kernel<<<grid_for(count), block_threads, 0, stream>>>(
        condition, static_cast<const T*>(source), static_cast<T*>(target), count);
  });
  check_launch("copy_if");
}

void swap(cudaStream_t stream, void* a, void* b, int64_t bytes) {
  with_wide_elements(a, b, bytes, [&]<class T>(int64_t count) {
    swap_kernel<<<grid_for(count), block_threads, 0, stream>>>(static_cast<T*>(a),
                                                               static_cast<T*>(b), count);
  });
  check_launch("swap");
}

}  // namespace whisker::cuda::kernels
