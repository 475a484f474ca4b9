// Epilogues of gemms and their gradients; softmax; magnitudes.
#include "core/cpu/support/rows.h"

#include "core/cpu/support/activations.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/thread_sums.h"
#include "core/cpu/support/vector_math.h"
#include "core/vectorize.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

namespace whisker::cpu {
namespace {

template <class T>
WHISKER_VECTORIZE void add_rows(const T* x, int64_t rows, int64_t columns, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) sums[i] += load(x[r * columns + i]);
  }
}

// Magnitudes compare as integers: the bits of an f32 without its sign grow with its value, infinity
// is above every number and NaN above infinity.
template <class T>
WHISKER_VECTORIZE uint32_t largest_bits(const T* x, int64_t count) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(load(x[i])) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

WHISKER_VECTORIZE float largest_element(const float* x, int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// A loop each: g++ inlines vector_exp() where it is called once, and vectorises the loop.
template <bool Store>
WHISKER_VECTORIZE double exponential_row(const float* x, float shift, float* y, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const float value = vector_exp(x[i] - shift);
    if constexpr (Store) y[i] = value;
    sum += static_cast<double>(value);
  }
  return sum;
}

}  // namespace

template <class Z, class Y>
void bias_activation(const Z* z, Y* y, int64_t rows, int64_t columns, const Y* bias,
                     ActivationSpec f) {
  const bool in_place = static_cast<const void*>(z) == static_cast<const void*>(y);
  if (in_place && !bias && f.kind == Activation::none) return;
  visit_activation(f.kind, [&]<class F>() {
    const auto value = [slope = f.slope](float v) { return F::value(v, slope); };
    const auto biased = [slope = f.slope](float v, float b) { return F::value(v + b, slope); };
    if (!bias) return each(value, y, rows * columns, z);
    parallel_each(rows, rows_grain(columns), [&](int64_t r, int) {
      map(biased, y + r * columns, columns, z + r * columns, bias);
    });
  });
}

template <class T>
void residual_activation(const T* residual, T* y, int64_t count, ActivationSpec f) {
  visit_activation(f.kind, [&]<class F>() {
    each([slope = f.slope](float v, float r) { return F::value(v + r, slope); }, y, count, y,
         residual);
  });
}

template <class T>
void activation_gradient(ActivationSpec f, const T* y, const T* dy, T* dz, int64_t count) {
  visit_activation(f.kind, [&]<class F>() {
    each([slope = f.slope](float saved, float d) { return gradient<F>(saved, slope, d); }, dz,
         count, y, dy);
  });
}

int64_t column_sums_bytes(int64_t rows, int64_t columns) {
  const int64_t team = team_size(rows, rows_grain(columns));
  return team * columns * static_cast<int64_t>(sizeof(double) + sizeof(float));
}

template <class T>
void column_sums(Allocator& allocator, const T* x, int64_t rows, int64_t columns, T* sums) {
  constexpr int64_t stretch = 64;  // rows added in f32 before the f64 sums
  const ThreadSums totals(allocator, rows, rows_grain(columns), columns);
  const Scratch<float> parts(allocator, team_size(rows, rows_grain(columns)) * columns);
  parallel_ranges(rows, rows_grain(columns), [&](int64_t begin, int64_t end, int thread) {
    float* part = parts.data() + thread * columns;
    for (int64_t r = begin; r < end; r += stretch) {
      std::fill_n(part, columns, 0.0f);
      add_rows(x + r * columns, std::min(stretch, end - r), columns, part);
      add_to_sums(part, totals.of(thread), columns);
    }
  });
  for (int64_t i = 0; i < columns; ++i) store(sums[i], static_cast<float>(totals.total(i)));
}

template <class T>
float largest_magnitude(const T* x, int64_t count) {
  std::atomic<uint32_t> largest = 0;
  parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
    const uint32_t bits = largest_bits(x + begin, end - begin);
    uint32_t seen = largest.load();
    while (bits > seen && !largest.compare_exchange_weak(seen, bits)) {
    }
  });
  return std::bit_cast<float>(largest.load());
}

float largest_of(const float* x, int64_t count) {
  return largest_element(x, count);
}

double exponentials(const float* x, float shift, float* y, int64_t count) {
  return y ? exponential_row<true>(x, shift, y, count) : exponential_row<false>(x, shift, y, count);
}

void scale_row(float* x, float scale, int64_t count) {
  map([scale](float v) { return v * scale; }, x, count, x);
}

void softmax_row(const float* x, bool log, float* y, int64_t count) {
  const float largest = largest_of(x, count);
  const double sum = exponentials(x, largest, log ? nullptr : y, count);
  if (!log) return scale_row(y, static_cast<float>(1 / sum), count);
  const float shift = static_cast<float>(-std::log(sum));
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest + shift;
}

void round_row(const float* x, bf16_t* y, int64_t count) {
  map([](float v) { return v; }, y, count, x);
}

template void bias_activation(const float*, float*, int64_t, int64_t, const float*, ActivationSpec);
template void bias_activation(const bf16_t*, bf16_t*, int64_t, int64_t, const bf16_t*,
                              ActivationSpec);
template void bias_activation(const float*, bf16_t*, int64_t, int64_t, const bf16_t*,
                              ActivationSpec);
template void residual_activation(const float*, float*, int64_t, ActivationSpec);
template void residual_activation(const bf16_t*, bf16_t*, int64_t, ActivationSpec);
template void activation_gradient(ActivationSpec, const float*, const float*, float*, int64_t);
template void activation_gradient(ActivationSpec, const bf16_t*, const bf16_t*, bf16_t*, int64_t);
template void column_sums(Allocator&, const float*, int64_t, int64_t, float*);
template void column_sums(Allocator&, const bf16_t*, int64_t, int64_t, bf16_t*);
template float largest_magnitude(const float*, int64_t);
template float largest_magnitude(const bf16_t*, int64_t);

}  // namespace whisker::cpu
