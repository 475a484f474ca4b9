// Group normalisation, example by example: sums of each channel in f64, of f32 differences from its
// first value, are added up to those of its group.
#pragma once

#include "core/backend/normalization.h"
#include "core/cpu/cpu_kernels.h"
#include "core/cpu/support/rows.h"
#include "core/cpu/support/thread_sums.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cmath>

namespace whisker::cpu {
namespace {

// Adds, per channel of x (rows, channels), differences from `shift` (channels) and their squares.
WHISKER_VECTORIZE void add_channel_moments(const float* x, const float* shift, double* sum,
                                           double* squares, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const auto d = static_cast<double>(row[c] - shift[c]);
      sum[c] += d;
      squares[c] += d * d;
    }
  }
}

// y = (x - center) scale + shift, over x (rows, channels).
WHISKER_VECTORIZE void normalise_channels(const float* x, const float* center, const float* scale,
                                          const float* shift, float* y, int64_t rows,
                                          int64_t channels) {
  for (int64_t at = 0; at < rows * channels; at += channels) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      y[at + c] = (x[at + c] - center[c]) * scale[c] + shift[c];
    }
  }
}

// Adds, per channel, dy and dy (x - center).
WHISKER_VECTORIZE void add_channel_gradients(const float* x, const float* dy, const float* center,
                                             double* sum, double* correlation, int64_t rows,
                                             int64_t channels) {
  for (int64_t at = 0; at < rows * channels; at += channels) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      sum[c] += static_cast<double>(dy[at + c]);
      correlation[c] += static_cast<double>(dy[at + c] * (x[at + c] - center[c]));
    }
  }
}

struct ChannelGradient {
  const float *center, *scale, *offset, *slope;  // (channels) each
};

// dx = dy scale - offset - (x - center) slope.
WHISKER_VECTORIZE void channel_gradient(const float* x, const float* dy, const ChannelGradient& f,
                                        float* dx, int64_t rows, int64_t channels) {
  const auto [center, scale, offset, slope] = f;
  for (int64_t at = 0; at < rows * channels; at += channels) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      dx[at + c] = dy[at + c] * scale[c] - offset[c] - (x[at + c] - center[c]) * slope[c];
    }
  }
}

class GroupNorm : public NormalizationKernels, protected CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void group_norm(const GroupNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    ViaF32 t(device_.backend, "group_norm", out.y);
    const float *from = f32(t.in(in.x)), *gamma = f32(t.in(in.gamma)), *beta = f32(t.in(in.beta));
    float *to = f32(t.out(out.y)), *means = f32(out.mean), *inverses = f32(out.inv_std);
    const int64_t example = g.positions * g.channels;  // elements
    const auto positions = static_cast<double>(g.positions);
    const ThreadSums sums(allocator_, g.n, rows_grain(example), 2 * g.channels);
    const Scratch<float> factors = thread_factors(g, 2);
    parallel_each(g.n, rows_grain(example), [&](int64_t n, int thread) {
      double *const sum = sums.of(thread), *const squares = sum + g.channels;
      float* const center = factors.data() + thread * 2 * g.channels;
      float* const scale = center + g.channels;
      const float* x = from + n * example;  // (positions, channels)
      std::fill_n(sum, 2 * g.channels, 0.0);
      add_channel_moments(x, x, sum, squares, g.positions, g.channels);
      for (int64_t first = 0; first < g.channels; first += g.per_group()) {
        const int64_t last = first + g.per_group();
        const auto mean_of = [&](int64_t c) { return double{x[c]} + sum[c] / positions; };
        double mean = 0;
        for (int64_t c = first; c < last; ++c) mean += mean_of(c);
        mean /= static_cast<double>(g.per_group());
        double deviations = 0;  // squared: within the channels, and of their means
        for (int64_t c = first; c < last; ++c) {
          const double d = mean_of(c) - mean;
          deviations += std::max(squares[c] - sum[c] * sum[c] / positions, 0.0) + positions * d * d;
        }
        const double variance = deviations / (positions * static_cast<double>(g.per_group()));
        const double inverse = 1 / std::sqrt(variance + g.epsilon);
        const int64_t group = n * g.groups + first / g.per_group();
        means[group] = static_cast<float>(mean);
        inverses[group] = static_cast<float>(inverse);
        for (int64_t c = first; c < last; ++c) {
          center[c] = means[group];
          scale[c] = static_cast<float>(double{gamma[c]} * inverse);
        }
      }
      normalise_channels(x, center, scale, beta, to + n * example, g.positions, g.channels);
    });
  }

  void group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    ViaF32 t(device_.backend, "group_norm", dy);
    const float* gradient = f32(t.in(dy));
    if (!saved.x.defined())
      return only_beta(gradient, g.n * g.positions, g.channels, t.out(out.dbeta));
    const float *from = f32(t.in(saved.x)), *means = f32(saved.mean),
                *inverses = f32(saved.inv_std);
    float* to = f32_or_null(t.out(out.dx));
    const float* gamma = to ? f32(t.in(saved.gamma)) : nullptr;
    const int64_t example = g.positions * g.channels;  // elements
    const auto values = static_cast<double>(g.positions * g.per_group());
    // Sums of all examples of a thread, then of its current example.
    const ThreadSums sums(allocator_, g.n, rows_grain(example), 4 * g.channels);
    const Scratch<float> factors = thread_factors(g, 4);
    parallel_each(g.n, rows_grain(example), [&](int64_t n, int thread) {
      double *const dbeta = sums.of(thread), *const dgamma = dbeta + g.channels;
      double *const sum = dgamma + g.channels, *const correlation = sum + g.channels;
      float* const center = factors.data() + thread * 4 * g.channels;
      float *const scale = center + g.channels, *const offset = scale + g.channels;
      float* const slope = offset + g.channels;
      const float* x = from + n * example;       // (positions, channels)
      const float* d = gradient + n * example;   // (positions, channels)
      const float* mean = means + n * g.groups;  // (groups)
      for (int64_t c = 0; c < g.channels; ++c) center[c] = mean[c / g.per_group()];
      std::fill_n(sum, 2 * g.channels, 0.0);
      add_channel_gradients(x, d, center, sum, correlation, g.positions, g.channels);
      for (int64_t first = 0; first < g.channels; first += g.per_group()) {
        const int64_t last = first + g.per_group();
        const double inverse{inverses[n * g.groups + first / g.per_group()]};
        double of_group = 0;
        double correlation_of_group = 0;
        for (int64_t c = first; c < last; ++c) {
          dbeta[c] += sum[c];
          dgamma[c] += correlation[c] * inverse;
          if (!to) continue;
          of_group += double{gamma[c]} * sum[c];
          correlation_of_group += double{gamma[c]} * correlation[c];
        }
        for (int64_t c = first; to && c < last; ++c) {
          scale[c] = static_cast<float>(double{gamma[c]} * inverse);
          offset[c] = static_cast<float>(of_group / values * inverse);
          slope[c] =
              static_cast<float>(correlation_of_group / values * inverse * inverse * inverse);
        }
      }
      if (!to) return;
      channel_gradient(x, d, {center, scale, offset, slope}, to + n * example, g.positions,
                       g.channels);
    });
    write_elements(out.dbeta, [&](int64_t c) { return sums.total(c); });
    write_elements(out.dgamma, [&](int64_t c) { return sums.total(g.channels + c); });
  }

 protected:
  /// The gradients of a norm whose beta alone learns.
  void only_beta(const float* dy, int64_t rows, int64_t channels, const Tensor& dbeta) {
    if (dbeta.defined()) column_sums(allocator_, dy, rows, channels, f32(dbeta));
  }

 private:
  /// Memory for `count` factors of each channel of an example, one run per thread.
  Scratch<float> thread_factors(const GroupNormGeometry& g, int64_t count) {
    const int team = team_size(g.n, rows_grain(g.positions * g.channels));
    return scratch<float>(team * count * g.channels);
  }
};

}  // namespace
}  // namespace whisker::cpu
