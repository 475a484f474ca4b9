// The training step: counting batches, the norm of the gradients, the decision on the update, the
// optimizer (its kernels: optimizer.cuh), averages of weights. One thread calls the functions of
// core/backend/step_state.h; what changes from step to step is read from device memory, and nothing
// waits for the host.
#include "core/backend/training_step.h"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/columns.cuh"
#include "core/cuda/ops/optimizer.cuh"

namespace whisker::cuda {
namespace {

// G threads per row. counters: the ticket and the number of correct rows; both zero before and
// after.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    count_batch_kernel(StepRule rule, int64_t rows, int64_t classes, const T* logits,
                       const int64_t* labels, const float* loss, StepState* state,
                       uint32_t* counters) {
  wait_for_previous();
  uint32_t correct = 0;
  for_each_column<G>(rows, [&](int64_t row, int lane) {
    const T* own = logits + row * classes;
    const auto at = [&](int64_t c) { return to_f32(own[c]); };
    const int64_t guess = classes == 1
                              ? int64_t{at(0) > 0}
                              : first_of<G>(largest_of<G>(classes, lane, at), classes, lane, at);
    correct += lane == 0 && guess == labels[row];
  });
  correct = group_sum<block_threads>(correct);
  if (threadIdx.x == 0) atomicAdd(counters + 1, correct);
  if (!is_last_block(counters, gridDim.x) || threadIdx.x != 0) return;
  const uint32_t all = atomicExch(counters + 1, 0);
  whisker::count_batch(*state, rule, {.loss = *loss, .correct = all, .rows = rows});
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

// Adds the squares of two ranges to `sum`; where that is null, begins the update with them.
template <class T>
__global__ void __launch_bounds__(block_threads)
    squares_kernel(const T* first, int64_t first_count, const float* second, int64_t second_count,
                   double* parts, uint32_t* ticket, double* sum, StepRule rule, StepState* state) {
  wait_for_previous();
  const double own = own_squares(first, first_count) + own_squares(second, second_count);
  double all;
  if (!add_up(own, parts, ticket, all)) return;
  if (sum) {
    *sum += all;
  } else {
    whisker::begin_update(*state, rule, sqrt(state->square_sum + all));
  }
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
    moving_average_kernel(double longest_decay, bool warmup, const int32_t* applies,
                          int64_t* updates, int64_t count, const T* value, T* average,
                          uint32_t* ticket) {
  if (applies && !*applies) return;
  const double decay = average_decay(longest_decay, warmup, *updates + 1);
  const Average f{static_cast<float>(decay), static_cast<float>(1 - decay)};
  map_elements<N>(count, f, average, static_cast<const T*>(average), value);
  if (is_last_block(ticket, gridDim.x) && threadIdx.x == 0) ++*updates;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    copy_if_kernel(const int32_t* condition, const T* source, T* target, int64_t count) {
  if (*condition == 0) return;
  for (int64_t i = first_item(); i < count; i += item_step()) target[i] = source[i];
}

template <class T>
struct Swap {
  T *a, *b;
  __device__ void operator()(int64_t i) const {
    const T kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
};

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

class TrainingStep final : public TrainingStepKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override {
    context_.enter();
    const int64_t rows = logits.extent(0), classes = logits.extent(1);
    with_group<32>(logits.dtype(), rows, classes, 1, [&]<class T, int G>(unsigned blocks) {
      launch_pdl(context_, blocks, block_threads, count_batch_kernel<T, G>, count.rule, rows,
                 classes, logits, count.labels, f32(loss), count.state, context_.tickets());
    });
  }

  void add_squares(const Tensor& x, double* sum) override {
    launch_squares({operand(x), x.count()}, {}, sum, {}, nullptr);
  }

  void begin_update(const StepRule& rule, StepState* state) override {
    launch_squares({}, {}, nullptr, rule, state);
  }

  void optimizer_step(const OptimizerStep& step) override {
    context_.enter();
    update_both(update_of(step), {});
  }

  // Two kernels for what Note [Compute views] makes of an arena: one run, or one and one of f32.
  void update(const StepRule& rule, StepState* state,
              std::span<const OptimizerStep> runs) override {
    const bool is_fused = !runs.empty() && runs.size() <= 2 &&
                          runs.back().value.dtype() == DType::f32 &&
                          (runs.size() == 1 || runs.back().gradient.dtype() == DType::f32);
    if (!is_fused) return TrainingStepKernels::update(rule, state, runs);
    context_.enter();
    const OptimizerUpdate first = update_of(runs.front());
    const OptimizerUpdate second = runs.size() == 2 ? update_of(runs.back()) : OptimizerUpdate{};
    launch_squares({first.gradient, first.count}, {second.gradient, second.count}, nullptr, rule,
                   state);
    update_both(first, second);
  }

  void moving_average(const AverageStep& s) override {
    context_.enter();
    const int64_t count = s.value.count();
    visit_real(s.value.dtype(), [&]<class T>() {
      constexpr int n = pack_size<T>;
      const bool packs = aligned_for<n>(pointer<const T>(s.value), pointer<T>(s.average));
      launch_kernel(stream(), "moving_average", grid_for(packs ? (count + n - 1) / n : count),
                    packs ? moving_average_kernel<T, n> : moving_average_kernel<T, 1>, s.decay,
                    s.warmup, s.applies, s.updates, count, s.value, s.average, context_.tickets());
    });
  }

  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override {
    with_wide_elements(source, target, bytes, [&]<class T>(int64_t count) {
      launch_kernel(stream(), "copy_if", grid_for(count), copy_if_kernel<T>, condition, source,
                    target, count);
    });
  }

  void swap(const Tensor& a, const Tensor& b) override {
    with_wide_elements(a.raw(), b.raw(), a.bytes(), [&]<class T>(int64_t count) {
      for_each_item(stream(), "swap", count, Swap<T>{pointer<T>(a), pointer<T>(b)});
    });
  }

 private:
  struct Range {
    Operand x = {};
    int64_t count = 0;
  };
  /// squares_kernel; `second` is f32.
  void launch_squares(const Range& first, const Range& second, double* sum, const StepRule& rule,
                      StepState* state) {
    context_.enter();
    visit_real(first.x.dtype, [&]<class T>() {
      const int64_t packs = std::max(first.count / pack_size<T>, second.count / pack_size<float>);
      const unsigned blocks =
          std::min(grid_for(packs), static_cast<unsigned>(context_.multiprocessors()) * 8);
      const Scratch parts(allocator_, int64_t{blocks} * int64_t{sizeof(double)});
      launch_pdl(context_, blocks, block_threads, squares_kernel<T>, first.x.data, first.count,
                 second.x.data, second.count, parts.data(), context_.tickets(), sum, rule, state);
    });
  }

  /// One kernel; `second` may be empty, its gradients are f32.
  void update_both(const OptimizerUpdate& first, const OptimizerUpdate& second) {
    const auto grid = [](int64_t count) { return grid_for((count + 3) / pack_size<float>); };
    const unsigned blocks = grid(first.count);
    const unsigned more = second.count == 0 ? 0 : grid(second.count);
    visit_real(first.gradient.dtype, [&]<class G>() {
      launch_pdl(context_, blocks + more, block_threads, optimizer_kernel<G>, first, second,
                 blocks);
    });
  }
};

}  // namespace

std::shared_ptr<TrainingStepKernels> make_training_step(CudaDevice& device) {
  return std::make_shared<TrainingStep>(device);
}

}  // namespace whisker::cuda
