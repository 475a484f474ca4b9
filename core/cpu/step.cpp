// The rest of a training step: counting batches, the norm of the gradients, the verdict on the
// update (core/backend/step_state.h), averages of weights.
#include "core/cpu/backend_class.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/flush_denormals.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/vectorize.h"

#include <algorithm>
#include <cmath>

namespace whisker::cpu {
namespace {

template <class T>
WHISKER_VECTORIZE double squares_of(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const auto v = double{load(x[i])};
    sum += v * v;
  }
  return sum;
}

WHISKER_VECTORIZE void average_range(float decay, float fresh, const float* value, float* average,
                                     int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) average[i] = decay * average[i] + fresh * value[i];
}

}  // namespace

void CpuBackend::count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) {
  const int64_t rows = logits.extent(0), classes = logits.extent(1);
  const float* row = f32(logits);  // (rows, classes)
  const auto* label = static_cast<const int64_t*>(count.labels.raw());
  int64_t correct = 0;
  for (int64_t r = 0; r < rows; ++r, row += classes) {
    const int64_t guess = classes == 1 ? *row > 0 : std::max_element(row, row + classes) - row;
    correct += guess == label[r];
  }
  whisker::count_batch(*count.state, count.rule, static_cast<double>(*f32(loss)), correct, rows);
}

void CpuBackend::add_squares(const Tensor& x, double* sum) {
  const int team = team_size(x.count(), pointwise_grain);
  const Scratch<double> totals = scratch<double>(team);
  std::fill_n(totals.data(), team, 0.0);
  visit_element("add_squares", x.dtype(), [&]<class T>() {
    const T* from = static_cast<const T*>(x.raw());
    parallel_ranges(x.count(), pointwise_grain, [&](int64_t begin, int64_t end, int thread) {
      totals[thread] = squares_of(from + begin, end - begin);
    });
  });
  for (int t = 0; t < team; ++t) *sum += totals[t];
}

void CpuBackend::begin_update(const StepRule& rule, StepState* state) {
  whisker::begin_update(*state, rule, std::sqrt(state->square_sum));
}

void CpuBackend::moving_average(const AverageStep& step) {
  if (step.applies && !*step.applies) return;
  const double decay = average_decay(step.decay, step.warmup, ++*step.updates);
  const float* from = f32(step.value);
  float* to = f32(step.average);
  parallel_ranges(step.value.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
    const FlushDenormals flush;
    average_range(static_cast<float>(decay), static_cast<float>(1 - decay), from + begin,
                  to + begin, end - begin);
  });
}

void CpuBackend::copy_if(const int32_t* condition, const void* source, void* target,
                         int64_t bytes) {
  if (*condition) copy(source, target, bytes);
}

void CpuBackend::swap(const Tensor& a, const Tensor& b) {
  char* left = static_cast<char*>(a.raw());
  char* right = static_cast<char*>(b.raw());
  parallel_ranges(a.bytes(), pointwise_grain * 4, [&](int64_t begin, int64_t end, int) {
    std::swap_ranges(left + begin, left + end, right + begin);
  });
}

}  // namespace whisker::cpu
