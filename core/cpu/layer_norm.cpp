// Layer normalisation, row by row: statistics in f64 of f32 differences from the row's first value.
#include "core/cpu/backend_class.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"
#include "core/cpu/support/vectorize.h"

#include <algorithm>
#include <cmath>

namespace whisker::cpu {
namespace {

struct Moments {
  double sum = 0;
  double squares = 0;
};

WHISKER_VECTORIZE Moments row_moments(const float* x, float shift, int64_t count) {
  double sum = 0;
  double squares = 0;
#pragma omp simd reduction(+ : sum, squares)
  for (int64_t i = 0; i < count; ++i) {
    const auto d = static_cast<double>(x[i] - shift);
    sum += d;
    squares += d * d;
  }
  return {sum, squares};
}

WHISKER_VECTORIZE void normalise_row(const float* x, float mean, float inverse, const float* gamma,
                                     const float* beta, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
}

// Sums of d = dy gamma and of d times the normalised x.
WHISKER_VECTORIZE Moments row_gradient_sums(const float* x, const float* dy, const float* gamma,
                                            float mean, float inverse, int64_t count) {
  double sum = 0;
  double correlation = 0;
#pragma omp simd reduction(+ : sum, correlation)
  for (int64_t i = 0; i < count; ++i) {
    const auto d = static_cast<double>(dy[i] * gamma[i]);
    sum += d;
    correlation += d * static_cast<double>((x[i] - mean) * inverse);
  }
  return {sum, correlation};
}

WHISKER_VECTORIZE void row_gradient(const float* x, const float* dy, const float* gamma, float mean,
                                    float inverse, float offset, float slope, float* dx,
                                    int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = inverse * (dy[i] * gamma[i] - offset - slope * (x[i] - mean) * inverse);
  }
}

WHISKER_VECTORIZE void add_parameter_gradients(const float* x, const float* dy, float mean,
                                               float inverse, double* dgamma, double* dbeta,
                                               int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    dbeta[i] += static_cast<double>(dy[i]);
    dgamma[i] += static_cast<double>(dy[i] * ((x[i] - mean) * inverse));
  }
}

}  // namespace

void CpuBackend::layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                            const Tensor& beta, const Tensor& y, const Tensor& mean,
                            const Tensor& inv_std) {
  const float* from = f32(x);
  const float* scale = f32(gamma);
  const float* shift = f32(beta);
  float* to = f32(y);
  float* means = f32(mean);
  float* inverses = f32(inv_std);
  const auto features = static_cast<double>(g.features);
  parallel_ranges(g.rows, rows_grain(g.features), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = from + r * g.features;
      const Moments m = row_moments(row, row[0], g.features);
      const double d = m.sum / features;
      const double variance = std::max(m.squares / features - d * d, 0.0);
      means[r] = static_cast<float>(static_cast<double>(row[0]) + d);
      inverses[r] = static_cast<float>(1 / std::sqrt(variance + g.epsilon));
      normalise_row(row, means[r], inverses[r], scale, shift, to + r * g.features, g.features);
    }
  });
}

void CpuBackend::layer_norm_backward(const LayerNormGeometry& g, const Tensor& x,
                                     const Tensor& gamma, const Tensor& mean, const Tensor& inv_std,
                                     const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                                     const Tensor& dbeta) {
  if (!x.defined()) {  // only beta learns
    if (dbeta.defined()) column_sums(allocator_, f32(dy), g.rows, g.features, f32(dbeta));
    return;
  }
  const float* from = f32(x);
  const float* gradient = f32(dy);
  const float* means = f32(mean);
  const float* inverses = f32(inv_std);
  if (dx.defined()) {
    const float* scale = f32(gamma);
    float* to = f32(dx);
    const auto features = static_cast<double>(g.features);
    parallel_ranges(g.rows, rows_grain(g.features), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r * g.features;
        const Moments m =
            row_gradient_sums(from + at, gradient + at, scale, means[r], inverses[r], g.features);
        row_gradient(from + at, gradient + at, scale, means[r], inverses[r],
                     static_cast<float>(m.sum / features), static_cast<float>(m.squares / features),
                     to + at, g.features);
      }
    });
  }
  if (!dgamma.defined() && !dbeta.defined()) return;
  const int team = team_size(g.rows, rows_grain(g.features));
  const Scratch<double> sums = scratch<double>(team * 2 * g.features);
  std::fill_n(sums.data(), team * 2 * g.features, 0.0);
  parallel_ranges(g.rows, rows_grain(g.features), [&](int64_t begin, int64_t end, int thread) {
    double* own = sums.data() + thread * 2 * g.features;
    for (int64_t r = begin; r < end; ++r) {
      add_parameter_gradients(from + r * g.features, gradient + r * g.features, means[r],
                              inverses[r], own, own + g.features, g.features);
    }
  });
  for (int64_t i = 0; i < g.features; ++i) {
    double gamma_sum = 0;
    double beta_sum = 0;
    for (int64_t t = 0; t < team; ++t) {
      gamma_sum += sums[t * 2 * g.features + i];
      beta_sum += sums[(t * 2 + 1) * g.features + i];
    }
    if (dgamma.defined()) f32(dgamma)[i] = static_cast<float>(gamma_sum);
    if (dbeta.defined()) f32(dbeta)[i] = static_cast<float>(beta_sum);
  }
}

}  // namespace whisker::cpu
