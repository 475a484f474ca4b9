// Batch, layer and group normalisation. Of batch_norm, statistics and per-channel factors around
// the passes of kernels/batch_norm.cpp: per-channel tensors are padded with zeros to the lanes of
// the layout, so that padding channels of a blocked form stay zero; images may be bf16, gamma and
// beta too; statistics are f32 and computed in f64. layer_norm goes row by row: statistics in f64
// of f32 differences from the row's first value. group_norm goes example by example: sums of each
// channel in f64, of f32 differences from its first value, are added up to those of its group.
#include "core/backend/normalization.h"

#include "core/backend/unsummed_grads.h"
#include "core/cpu/cpu_kernels.h"
#include "core/cpu/kernels/batch_norm.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/rows.h"
#include "core/cpu/support/thread_sums.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cmath>

namespace whisker::cpu {
namespace {

/// The layout that `x` is in, as images.
ImageLayout norm_layout(const BatchNormGeometry& g, const Tensor& x) {
  return layout_of(x, {.n = g.n, .positions = g.h * g.w, .channels = g.channels});
}

/// A per-channel array of the layout's length: zeros, or `values` (channels) before them, where
/// they are defined.
struct Lanes : Scratch<float> {
  Lanes(Allocator& allocator, const ImageLayout& a, const Tensor& values = no_tensor)
      : Scratch(allocator, a.lanes()) {
    std::fill_n(data(), a.lanes(), 0.0f);
    if (!values.defined()) return;
    visit_element("batch_norm", values.dtype(), [&]<class T>() {
      const T* from = static_cast<const T*>(values.raw());
      for (int64_t c = 0; c < a.channels; ++c) data()[c] = load(from[c]);
    });
  }
};

/// to (channels) = value(c), unless undefined.
template <class Fn>
void write_channels(const Tensor& to, Fn&& value) {
  if (!to.defined()) return;
  visit_element("batch_norm", to.dtype(), [&]<class T>() {
    T* values = static_cast<T*>(to.raw());
    for (int64_t c = 0; c < to.count(); ++c) store(values[c], static_cast<float>(value(c)));
  });
}

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

WHISKER_VECTORIZE void add_parameter_gradients(const float* x, const float* dy, float mean,
                                               float inverse, double* dgamma, double* dbeta,
                                               int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    dbeta[i] += static_cast<double>(dy[i]);
    dgamma[i] += static_cast<double>(dy[i] * ((x[i] - mean) * inverse));
  }
}

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

class Normalization final : public NormalizationKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void batch_norm_train(const BatchNormGeometry& g, const NormInputs& in, const NormOutputs& out,
                        const RunningStatistics& running) override {
    const ImageLayout a = norm_layout(g, in.x);
    const LayoutInput from(allocator_, in.x, a), added(allocator_, in.residual, a);
    const Lanes center(allocator_, a), scale(allocator_, a, in.gamma), beta(allocator_, a, in.beta);
    const Scratch<double> sum = scratch<double>(a.lanes()), squares = scratch<double>(a.lanes());
    visit_element("batch_norm", out.y.dtype(), [&]<class T>() {
      const T* const x = from.data<T>();
      // Differences from a channel's first value do not cancel, whatever the mean.
      for (int64_t c = 0, inner = a.inner(); c < g.channels; ++c) {
        center[c] = load(x[c / inner * inner * a.positions + c % inner]);
      }
      NormPasses<T>::moments(allocator_, a, x, center.data(), sum.data(), squares.data());
      const auto rows = static_cast<double>(g.rows);
      for (int64_t c = 0; c < g.channels; ++c) {
        const double d = sum[c] / rows, mean = static_cast<double>(center[c]) + d;
        const double deviations = std::max(squares[c] - sum[c] * d, 0.0);
        const double inverse = 1 / std::sqrt(deviations / rows + g.epsilon);
        center[c] = static_cast<float>(mean);
        scale[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse);
        f32(out.mean)[c] = center[c];
        f32(out.inv_std)[c] = static_cast<float>(inverse);
        if (!running.mean.defined()) continue;
        const auto average = [&](const Tensor& before, double batch, const Tensor& after) {
          f32(after)[c] =
              static_cast<float>((1 - running.momentum) * static_cast<double>(f32(before)[c]) +
                                 running.momentum * batch);
        };
        average(running.mean, mean, running.pending_mean);
        average(running.variance, deviations / std::max(rows - 1, 1.0), running.pending_variance);
      }
      LayoutOutput to(allocator_, out.y, a);
      NormPasses<T>::apply(a, g.activation.kind, x, added.data<T>(),
                           {center.data(), scale.data(), beta.data()}, to.data<T>());
      to.finish();
    });
  }

  void batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                            const KnownStatistics& statistics, const Tensor& y) override {
    const ImageLayout a = norm_layout(g, in.x);
    const Lanes center(allocator_, a, statistics.mean), scale(allocator_, a, in.gamma),
        beta(allocator_, a, in.beta);
    for (int64_t c = 0; c < g.channels; ++c) {
      scale[c] = static_cast<float>(
          static_cast<double>(scale[c]) /
          std::sqrt(static_cast<double>(f32(statistics.variance)[c]) + g.epsilon));
    }
    const LayoutInput from(allocator_, in.x, a), added(allocator_, in.residual, a);
    LayoutOutput to(allocator_, y, a);
    visit_element("batch_norm", y.dtype(), [&]<class T>() {
      NormPasses<T>::apply(a, g.activation.kind, from.data<T>(), added.data<T>(),
                           {center.data(), scale.data(), beta.data()}, to.data<T>());
    });
    to.finish();
  }

  void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                           const UnsummedGrads& dy, const NormGrads& out) override {
    const ImageLayout a = norm_layout(g, saved.x.defined() ? saved.x : dy.first);
    const bool of_x = slope_from_x(g.activation.kind), scales = of_x || out.dx.defined();
    const LayoutInput from(allocator_, saved.x, a);
    const LayoutInput after(allocator_, of_x ? no_tensor : saved.y, a);
    const LayoutInput gradient(allocator_, dy.first, a);
    const Lanes center(allocator_, a, saved.mean);
    const Lanes scale(allocator_, a, scales ? saved.gamma : no_tensor);
    const Lanes beta(allocator_, a, of_x ? saved.beta : no_tensor);
    const auto inverse = [&](int64_t c) { return double{f32(saved.inv_std)[c]}; };
    for (int64_t c = 0; scales && c < g.channels; ++c) {
      scale[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse(c));
    }
    const NormFactors factors{center.data(), scale.data(), beta.data()};
    visit_element("batch_norm", dy.first.dtype(), [&]<class T>() {
      LayoutOutput for_residual(allocator_, out.dresidual, a);
      const Scratch<double> sum = scratch<double>(a.lanes());
      const Scratch<double> correlation = scratch<double>(a.lanes());
      NormPasses<T>::backward_sums(allocator_, a, g.activation.kind, from.data<T>(),
                                   after.data<T>(), gradient.data<T>(), factors,
                                   for_residual.data<T>(), sum.data(), correlation.data());
      write_channels(out.dbeta, [&](int64_t c) { return sum[c]; });
      write_channels(out.dgamma, [&](int64_t c) { return correlation[c] * inverse(c); });
      if (out.dx.defined()) {
        const Lanes offset(allocator_, a), slope(allocator_, a);
        const auto rows = static_cast<double>(g.rows);
        for (int64_t c = 0; c < g.channels; ++c) {
          const auto factor = static_cast<double>(scale[c]);
          offset[c] = static_cast<float>(factor * sum[c] / rows);
          slope[c] = static_cast<float>(factor * correlation[c] * inverse(c) * inverse(c) / rows);
        }
        LayoutOutput for_x(allocator_, out.dx, a);
        NormPasses<T>::backward_apply(a, g.activation.kind, from.data<T>(), after.data<T>(),
                                      gradient.data<T>(), factors, offset.data(),
                                      g.training ? slope.data() : nullptr, for_x.data<T>());
        for_x.finish();
      }
      // Last: the gradient may be read from the memory that finishing replaces.
      for_residual.finish();
    });
  }

  void layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    ViaF32 t(device_.backend, "layer_norm", out.y);
    const float *from = f32(t.in(in.x)), *scale = f32(t.in(in.gamma)), *shift = f32(t.in(in.beta));
    float *to = f32(t.out(out.y)), *means = f32(out.mean), *inverses = f32(out.inv_std);
    const auto features = static_cast<double>(g.features);
    parallel_each(g.rows, rows_grain(g.features), [&](int64_t r, int) {
      const float* row = from + r * g.features;
      const Moments m = row_moments(row, row[0], g.features);
      const double d = m.sum / features;
      const double variance = std::max(m.squares / features - d * d, 0.0);
      means[r] = static_cast<float>(static_cast<double>(row[0]) + d);
      inverses[r] = static_cast<float>(1 / std::sqrt(variance + g.epsilon));
      map([mean = means[r], inverse = inverses[r]](
              float x, float gamma, float beta) { return (x - mean) * inverse * gamma + beta; },
          to + r * g.features, g.features, row, scale, shift);
    });
  }

  void layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    ViaF32 t(device_.backend, "layer_norm", dy);
    const float* gradient = f32(t.in(dy));
    if (!saved.x.defined()) return only_beta(gradient, g.rows, g.features, t.out(out.dbeta));
    const float *from = f32(t.in(saved.x)), *means = f32(saved.mean),
                *inverses = f32(saved.inv_std);
    if (out.dx.defined()) {
      const float* scale = f32(t.in(saved.gamma));
      float* to = f32(t.out(out.dx));
      const auto features = static_cast<double>(g.features);
      parallel_each(g.rows, rows_grain(g.features), [&](int64_t r, int) {
        const int64_t at = r * g.features;
        const Moments m =
            row_gradient_sums(from + at, gradient + at, scale, means[r], inverses[r], g.features);
        const auto offset = static_cast<float>(m.sum / features);
        const auto slope = static_cast<float>(m.squares / features);
        map(
            [=, mean = means[r], inverse = inverses[r]](float x, float d, float gamma) {
              return inverse * (d * gamma - offset - slope * (x - mean) * inverse);
            },
            to + at, g.features, from + at, gradient + at, scale);
      });
    }
    if (!out.dgamma.defined() && !out.dbeta.defined()) return;
    const ThreadSums sums(allocator_, g.rows, rows_grain(g.features), 2 * g.features);
    parallel_each(g.rows, rows_grain(g.features), [&](int64_t r, int thread) {
      add_parameter_gradients(from + r * g.features, gradient + r * g.features, means[r],
                              inverses[r], sums.of(thread), sums.of(thread) + g.features,
                              g.features);
    });
    write_channels(out.dgamma, [&](int64_t i) { return sums.total(i); });
    write_channels(out.dbeta, [&](int64_t i) { return sums.total(g.features + i); });
  }

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
    // Of all examples of a thread, then those of the present one.
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
    write_channels(out.dbeta, [&](int64_t c) { return sums.total(c); });
    write_channels(out.dgamma, [&](int64_t c) { return sums.total(g.channels + c); });
  }

 private:
  void only_beta(const float* dy, int64_t rows, int64_t channels, const Tensor& dbeta) {
    if (dbeta.defined()) column_sums(allocator_, dy, rows, channels, f32(dbeta));
  }
  /// For each thread `count` factors of each channel of an example.
  Scratch<float> thread_factors(const GroupNormGeometry& g, int64_t count) {
    const int team = team_size(g.n, rows_grain(g.positions * g.channels));
    return scratch<float>(team * count * g.channels);
  }
};

}  // namespace

std::shared_ptr<NormalizationKernels> make_normalization(CpuDevice& device) {
  return std::make_shared<Normalization>(device);
}

}  // namespace whisker::cpu
