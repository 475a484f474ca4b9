// The rest of a training step: counting batches, the norm of the gradients, the verdict on the
// update (core/backend/step_state.h), averages of weights.
#include "core/reference/loops.h"
#include "core/reference/reference_backend.h"

#include <algorithm>
#include <cmath>

namespace whisker {

void ReferenceBackend::count_batch(const Tensor& logits, const Tensor& loss,
                                   const BatchCount& count) {
  visit_real("count_batch", logits.dtype(), [&]<class T>() {
    const int64_t rows = logits.extent(0), classes = logits.extent(1);
    int64_t correct = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = elements<T>(logits) + r * classes;  // (rows, classes)
      const int64_t guess = classes == 1 ? row[0] > 0 : std::max_element(row, row + classes) - row;
      correct += guess == elements<int64_t>(count.labels)[r];
    }
    whisker::count_batch(*count.state, count.rule, double{elements<T>(loss)[0]}, correct, rows);
  });
}

void ReferenceBackend::add_squares(const Tensor& x, double* sum) {
  visit(x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < x.count(); ++i) {
      const auto value = convert<double>(elements<T>(x)[i]);
      *sum += value * value;
    }
  });
}

void ReferenceBackend::begin_update(const StepRule& rule, StepState* state) {
  whisker::begin_update(*state, rule, std::sqrt(state->square_sum));
}

void ReferenceBackend::moving_average(const AverageStep& step) {
  if (step.applies && !*step.applies) return;
  const double decay = average_decay(step.decay, step.warmup, ++*step.updates);
  visit_real("moving_average", step.value.dtype(), [&]<class T>() {
    T* sum = elements<T>(step.average);  // (count)
    for (int64_t i = 0; i < step.value.count(); ++i) {
      sum[i] =
          convert<T>(decay * double{sum[i]} + (1 - decay) * double{elements<T>(step.value)[i]});
    }
  });
}

void ReferenceBackend::copy_if(const int32_t* condition, const void* source, void* target,
                               int64_t bytes) {
  if (*condition) copy(source, target, bytes);
}

void ReferenceBackend::swap(const Tensor& a, const Tensor& b) {
  visit(a.dtype(), [&]<class T>() {
    std::swap_ranges(elements<T>(a), elements<T>(a) + a.count(), elements<T>(b));
  });
}

}  // namespace whisker
