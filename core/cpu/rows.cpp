// Epilogues of matrix products and their gradients.
#include "core/cpu/rows.h"

#include "core/cpu/activations.h"
#include "core/cpu/parallel.h"
#include "core/cpu/vectorize.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

template <class F>
WHISKER_VECTORIZE void bias_row(float* y, const float* bias, float slope, int64_t columns) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) y[i] = F::value(y[i] + bias[i], slope);
}

template <class F>
WHISKER_VECTORIZE void plain_row(float* y, float slope, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = F::value(y[i], slope);
}

template <class F>
WHISKER_VECTORIZE void gradient_row(const float* y, const float* dy, float* dz, float slope,
                                    int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dz[i] = F::first(y[i], slope) * dy[i];
}

WHISKER_VECTORIZE void add_rows(const float* x, int64_t rows, int64_t columns, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) sums[i] += x[r * columns + i];
  }
}

WHISKER_VECTORIZE void add_to_double(const float* x, double* sums, int64_t columns) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(x[i]);
}

}  // namespace

void bias_activation(float* y, int64_t rows, int64_t columns, const float* bias, ActivationSpec f) {
  if (!bias && f.kind == Activation::none) return;
  visit_activation(f.kind, [&]<class F>() {
    parallel_ranges(rows, rows_grain(columns), [&](int64_t begin, int64_t end, int) {
      if (!bias) return plain_row<F>(y + begin * columns, f.slope, (end - begin) * columns);
      for (int64_t r = begin; r < end; ++r) bias_row<F>(y + r * columns, bias, f.slope, columns);
    });
  });
}

void activation_gradient(ActivationSpec f, const float* y, const float* dy, float* dz,
                         int64_t count) {
  visit_activation(f.kind, [&]<class F>() {
    parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
      gradient_row<F>(y + begin, dy + begin, dz + begin, f.slope, end - begin);
    });
  });
}

void column_sums(Allocator& allocator, const float* x, int64_t rows, int64_t columns, float* sums) {
  constexpr int64_t stretch = 64;  // rows added in f32 before they join the f64 sums
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
    sums[i] = static_cast<float>(total);
  }
}

}  // namespace whisker::cpu
