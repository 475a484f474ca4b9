// The rest of a training step: counting batches, the norm of the gradients, the verdict on the
// update, the optimizer, averages of weights. The rules are core/step_state.h's own functions,
// called by one thread; what changes from step to step is read from device memory.
#include "core/cuda/elementwise.cuh"
#include "core/cuda/group.cuh"
#include "core/cuda/step.h"

namespace whisker::cuda::kernels {
namespace {

// Position of a row's first largest logit, by G threads.
template <class T, int G>
__device__ int64_t first_largest(const T* row, int64_t classes, int lane) {
  float largest = -INFINITY;
  int64_t at = INT64_MAX;
  const auto take = [&](float value, int64_t position) {
    if (value > largest || (value == largest && position < at)) {
      largest = value;
      at = position;
    }
  };
  for (int64_t c = lane; c < classes; c += G) take(to_f32(row[c]), c);
  for (int distance = G / 2; distance > 0; distance /= 2) {
    const float value = __shfl_xor_sync(all_lanes, largest, distance);
    const int64_t position = __shfl_xor_sync(all_lanes, at, distance);
    take(value, position);
  }
  return at;
}

// G threads per row. counters: the ticket, and the right rows so far; both zero before and after.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    count_batch_kernel(StepRule rule, Batch b, StepState* state, uint32_t* counters) {
  constexpr int per_block = block_threads / G;
  const int lane = threadIdx.x % G;
  uint32_t correct = 0;
  for (int64_t turn = blockIdx.x; turn * per_block < b.rows; turn += gridDim.x) {
    const int64_t row = turn * per_block + threadIdx.x / G;
    if (row >= b.rows) continue;  // whole groups
    const T* logits = static_cast<const T*>(b.logits) + row * b.classes;
    const int64_t guess = b.classes == 1 ? int64_t{to_f32(logits[0]) > 0}
                                         : first_largest<T, G>(logits, b.classes, lane);
    correct += lane == 0 && guess == b.labels[row];
  }
  correct = group_sum<block_threads>(correct);
  if (threadIdx.x == 0) atomicAdd(counters + 1, correct);
  if (!is_last_block(counters, gridDim.x) || threadIdx.x != 0) return;
  const uint32_t all = atomicExch(counters + 1, 0);
  whisker::count_batch(*state, rule, static_cast<double>(*b.loss), all, b.rows);
}

// Blocks leave their sums in `parts`; the last adds them up in their order.
template <class T>
__global__ void __launch_bounds__(block_threads)
    add_squares_kernel(const T* x, int64_t count, double* parts, uint32_t* ticket, double* sum) {
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
  own = group_sum<block_threads>(own);
  if (threadIdx.x == 0) parts[blockIdx.x] = own;
  if (!is_last_block(ticket, gridDim.x)) return;
  double all = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += block_threads) all += __ldcg(parts + i);
  all = group_sum<block_threads>(all);
  if (threadIdx.x == 0) *sum += all;
}

__global__ void begin_update_kernel(StepRule rule, StepState* state) {
  whisker::begin_update(*state, rule, sqrt(state->square_sum));
}

/// OptimizerUpdate's numbers in f32, and what the device adds to them for one group of parameters.
struct Rates {
  float rate, decay, decay_step;    // learning rate; L2 factor; decoupled decay times rate
  float corrected_rate, deviation;  // adam: rate / correction1, 1 / sqrt(correction2)
  float factor, clip;
  float momentum, beta1, beta2, epsilon, rest1, rest2;  // rest: 1 - beta
  bool first;
};

__device__ Rates rates_of(const OptimizerUpdate& u, int group) {
  const StepState& s = *u.state;
  const double rate = s.inputs.learning_rate * u.groups[2 * group];
  const double decay = u.groups[2 * group + 1];
  const bool decoupled = u.decoupled_decay || u.kind == OptimizerKind::adamw;
  return {.rate = static_cast<float>(rate),
          .decay = decoupled ? 0.0f : static_cast<float>(decay),
          .decay_step = decoupled ? static_cast<float>(rate * decay) : 0.0f,
          .corrected_rate = static_cast<float>(rate / s.correction1),
          .deviation = static_cast<float>(1 / sqrt(s.correction2)),
          .factor = static_cast<float>(s.gradient_factor),
          .clip = static_cast<float>(u.clip_value),
          .momentum = static_cast<float>(u.momentum),
          .beta1 = static_cast<float>(u.beta1),
          .beta2 = static_cast<float>(u.beta2),
          .epsilon = static_cast<float>(u.epsilon),
          .rest1 = static_cast<float>(1 - u.beta1),
          .rest2 = static_cast<float>(1 - u.beta2),
          .first = s.steps == 1};
}

/// The value after one step; m are this element's moments. Formulas: core/reference/optimizer.cpp.
__device__ float updated(const OptimizerUpdate& u, const Rates& r, float value, float gradient,
                         float (&m)[3]) {
  float g = gradient * r.factor;
  if (r.clip > 0) g = g < -r.clip ? -r.clip : g > r.clip ? r.clip : g;
  value = fmaf(-r.decay_step, value, value);
  g = fmaf(r.decay, value, g);
  switch (u.kind) {
    case OptimizerKind::sgd:
      if (r.momentum == 0) return fmaf(-r.rate, g, value);
      m[0] = r.first ? g : fmaf(r.momentum, m[0], g);
      return fmaf(-r.rate, u.nesterov ? fmaf(r.momentum, m[0], g) : m[0], value);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      m[0] = fmaf(r.beta1, m[0], r.rest1 * g);
      m[1] = fmaf(r.beta2, m[1], r.rest2 * g * g);
      return value - r.corrected_rate * m[0] / fmaf(sqrtf(m[1]), r.deviation, r.epsilon);
    case OptimizerKind::rmsprop: {
      m[1] = fmaf(r.beta2, m[1], r.rest2 * g * g);
      float square = m[1];
      if (u.centered) {
        m[2] = fmaf(r.beta2, m[2], r.rest2 * g);
        square = fmaxf(square - m[2] * m[2], 0.0f);
      }
      const float scaled = g / (sqrtf(square) + r.epsilon);
      if (r.momentum == 0) return fmaf(-r.rate, scaled, value);
      m[0] = r.first ? scaled : fmaf(r.momentum, m[0], scaled);
      return fmaf(-r.rate, m[0], value);
    }
  }
  return value;
}

template <class To, int N>
__device__ void store_compute(void* compute, int64_t pack, const Pack<float, N>& value) {
  Pack<To, N> rounded;
#pragma unroll
  for (int k = 0; k < N; ++k) rounded.at[k] = from_f32<To>(value.at[k]);
  static_cast<Pack<To, N>*>(compute)[pack] = rounded;
}

// N neighbours, all of one 256-byte block of the arena and so of one group.
template <class G, int N>
__device__ void update_pack(const OptimizerUpdate& u, const Rates& rates, int64_t pack) {
  auto value = reinterpret_cast<const Pack<float, N>*>(u.value)[pack];
  const auto gradient = static_cast<const Pack<G, N>*>(u.gradient)[pack];
  Pack<float, N> moments[3] = {};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (u.moments[i]) moments[i] = reinterpret_cast<const Pack<float, N>*>(u.moments[i])[pack];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    float m[3] = {moments[0].at[k], moments[1].at[k], moments[2].at[k]};
    value.at[k] = updated(u, rates, value.at[k], to_f32(gradient.at[k]), m);
#pragma unroll
    for (int i = 0; i < 3; ++i) moments[i].at[k] = m[i];
  }
  reinterpret_cast<Pack<float, N>*>(u.value)[pack] = value;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (u.moments[i]) reinterpret_cast<Pack<float, N>*>(u.moments[i])[pack] = moments[i];
  }
  if (!u.compute) return;
  if (u.compute_dtype == DType::bf16) {
    store_compute<bfloat_t, N>(u.compute, pack, value);
  } else {
    store_compute<half_t, N>(u.compute, pack, value);
  }
}

// G: the gradient's type.
template <class G, int N>
__global__ void __launch_bounds__(block_threads) optimizer_kernel(OptimizerUpdate u) {
  if (!u.state->applies) return;
  // Neighbouring blocks are mostly of one group, whose rates are worked out in f64 only once.
  int group = -1;
  Rates rates;
  const auto rates_at = [&](int64_t element) -> const Rates& {
    const int wanted = u.block_group[element / 64];
    if (wanted != group) rates = rates_of(u, wanted);
    group = wanted;
    return rates;
  };
  const int64_t packs = u.count / N;
  for (int64_t p = first_item(); p < packs; p += item_step()) {
    update_pack<G, N>(u, rates_at(p * N), p);
  }
  const int64_t rest = packs * N + first_item();
  if (rest < u.count) update_pack<G, 1>(u, rates_at(rest), rest);
}

struct Average {
  float decay, rest;
  __device__ float operator()(float average, float value) const {
    return fmaf(decay, average, rest * value);
  }
};

// Every block reads the number of updates before the last one counts this one.
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
      count_batch_kernel<T, G><<<grid_for(batch.rows * G), block_threads, 0, context.stream()>>>(
          rule, batch, state, context.tickets());
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

void optimizer_step(cudaStream_t stream, const OptimizerUpdate& u) {
  if (u.count == 0) return;
  visit_real(u.gradient_dtype, [&]<class G>() {
    const auto* gradient = static_cast<const G*>(u.gradient);
    const auto* rounded = static_cast<const uint16_t*>(u.compute);
    const bool aligned =
        aligned_for<4>(u.value, gradient, rounded, u.moments[0], u.moments[1], u.moments[2]);
    if (aligned) {
      optimizer_kernel<G, 4><<<grid_for((u.count + 3) / 4), block_threads, 0, stream>>>(u);
    } else {
      optimizer_kernel<G, 1><<<grid_for(u.count), block_threads, 0, stream>>>(u);
    }
  });
  check_launch("optimizer_step");
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
