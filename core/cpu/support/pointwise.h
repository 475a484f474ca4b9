// Vectorised loops over elements.
#pragma once

#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/vectorize.h"

#include <cstdint>

namespace whisker::cpu {

/// y = f(x...), element by element; T and X are float or bf16_t. static, since g++ 13 ends with an
/// internal error where it clones a template of external linkage that takes a lambda.
template <class F, class T, class... X>
WHISKER_VECTORIZE static void map(F f, T* y, int64_t count, const X*... x) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], f(load(x[i])...));
}

/// map() by the whole team.
template <class F, class T, class... X>
void each(F f, T* y, int64_t count, const X*... x) {
  parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
    map(f, y + begin, end - begin, (x + begin)...);
  });
}

/// sums += x.
template <class T>
WHISKER_VECTORIZE static void add_to_sums(const T* x, double* sums, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(load(x[i]));
}

}  // namespace whisker::cpu
