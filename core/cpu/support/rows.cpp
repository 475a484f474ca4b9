// Epilogues of gemms and their gradients; magnitudes.
#include "core/cpu/support/rows.h"

#include "core/cpu/support/activations.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/vectorize.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace whisker::cpu {
namespace {

template <class F, class Z, class Y>
WHISKER_VECTORIZE void bias_row(const Z* z, Y* y, const Y* bias, float slope, int64_t columns) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) store(y[i], F::value(load(z[i]) + load(bias[i]), slope));
}

template <class F, class Z, class Y>
WHISKER_VECTORIZE void plain_row(const Z* z, Y* y, float slope, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], F::value(load(z[i]), slope));
}

template <class F, class T>
WHISKER_VECTORIZE void residual_row(const T* residual, T* y, float slope, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], F::value(load(y[i]) + load(residual[i]), slope));
}

template <class F, class T>
WHISKER_VECTORIZE void gradient_row(const T* y, const T* dy, T* dz, float slope, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(dz[i], gradient<F>(load(y[i]), slope, load(dy[i])));
}

template <class T>
WHISKER_VECTORIZE void add_rows(const T* x, int64_t rows, int64_t columns, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) sums[i] += load(x[r * columns + i]);
  }
}

WHISKER_VECTORIZE void add_to_double(const float* x, double* sums, int64_t columns) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(x[i]);
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

}  // namespace

template <class Z, class Y>
void bias_activation(const Z* z, Y* y, int64_t rows, int64_t columns, const Y* bias,
                     ActivationSpec f) {
  const bool in_place = static_cast<const void*>(z) == static_cast<const void*>(y);
  if (in_place && !bias && f.kind == Activation::none) return;
  visit_activation(f.kind, [&]<class F>() {
    parallel_ranges(rows, rows_grain(columns), [&](int64_t begin, int64_t end, int) {
      const int64_t at = begin * columns;
      if (!bias) return plain_row<F>(z + at, y + at, f.slope, (end - begin) * columns);
      for (int64_t r = begin; r < end; ++r) {
        bias_row<F>(z + r * columns, y + r * columns, bias, f.slope, columns);
      }
    });
  });
}

template <class T>
void residual_activation(const T* residual, T* y, int64_t count, ActivationSpec f) {
  visit_activation(f.kind, [&]<class F>() {
    parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
      residual_row<F>(residual + begin, y + begin, f.slope, end - begin);
    });
  });
}

template <class T>
void activation_gradient(ActivationSpec f, const T* y, const T* dy, T* dz, int64_t count) {
  visit_activation(f.kind, [&]<class F>() {
    parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
      gradient_row<F>(y + begin, dy + begin, dz + begin, f.slope, end - begin);
    });
  });
}

int64_t column_sums_bytes(int64_t rows, int64_t columns) {
  const int64_t team = team_size(rows * columns, pointwise_grain);
  return team * columns * static_cast<int64_t>(sizeof(double) + sizeof(float));
}

template <class T>
void column_sums(Allocator& allocator, const T* x, int64_t rows, int64_t columns, T* sums) {
  constexpr int64_t stretch = 64;  // rows added in f32 before the f64 sums
  const int team = team_size(rows * columns, pointwise_grain);
  const Scratch<double> totals(allocator, team * columns);
  const Scratch<float> parts(allocator, team * columns);
  std::fill_n(totals.data(), team * columns, 0.0);
  parallel_ranges(rows, rows_grain(columns), [&](int64_t begin, int64_t end, int thread) {
    float* part = parts.data() + thread * columns;
    for (int64_t r = begin; r < end; r += stretch) {
      std::fill_n(part, columns, 0.0f);
      add_rows(x + r * columns, std::min(stretch, end - r), columns, part);
      add_to_double(part, totals.data() + thread * columns, columns);
    }
  });
  for (int64_t i = 0; i < columns; ++i) {
    double total = 0;
    for (int64_t t = 0; t < team; ++t) total += totals[t * columns + i];
    store(sums[i], static_cast<float>(total));
  }
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

WHISKER_VECTORIZE void round_row(const float* x, bf16_t* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], x[i]);
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
