// Vectorised loops over elements.
#pragma once

#include "core/backend/dropout_mask.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/vectorize.h"

#include <algorithm>
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

/// y = x with dropout, whose mask (core/backend/dropout_mask.h) has x[0] as element `first`; the
/// key is resolved(), y may be x.
template <class T>
WHISKER_VECTORIZE static void drop_elements(const RandomKey& key, double rate, uint64_t first,
                                            const T* x, T* y, int64_t count) {
  const uint64_t threshold = dropout_threshold(rate);
  const auto scale = static_cast<float>(1 / (1 - rate));
  const auto one = [&](int64_t i) {
    const bool keeps = dropout_keeps(key, first + static_cast<uint64_t>(i), threshold);
    store(y[i], keeps ? load(x[i]) * scale : 0.0f);
  };
  const int64_t before = std::min(count, static_cast<int64_t>(-first % 4));  // whole Philox blocks
  const uint64_t first_block = (first + 3) / 4;
  const int64_t blocks = (count - before) / 4;
  for (int64_t i = 0; i < before; ++i) one(i);
  for (int64_t block = 0; block < blocks; ++block) {
    const PhiloxBlock words = dropout_words(key, first_block + static_cast<uint64_t>(block));
    for (size_t i = 0; i < 4; ++i) {
      const int64_t at = before + block * 4 + static_cast<int64_t>(i);
      store(y[at], words[i] >= threshold ? load(x[at]) * scale : 0.0f);
    }
  }
  for (int64_t i = before + blocks * 4; i < count; ++i) one(i);
}

/// sums += x.
template <class T>
WHISKER_VECTORIZE static void add_to_sums(const T* x, double* sums, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(load(x[i]));
}

}  // namespace whisker::cpu
