// Batch, layer and group normalisation. Of batch_norm, statistics and per-channel factors around
// the passes of kernels/batch_norm.cpp: per-channel tensors are padded with zeros to the lanes of
// the layout, so that padding channels of a blocked form stay zero; images may be bf16, gamma and
// beta too; statistics are f32 and computed in f64. layer_norm goes row by row: statistics in f64
// of f32 differences from the row's first value.
#include "core/backend/normalization.h"

#include "core/backend/unsummed_grads.h"
#include "core/cpu/group_norm.h"
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

class Normalization final : public GroupNorm {
 public:
  using GroupNorm::GroupNorm;

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
      write_elements(out.dbeta, [&](int64_t c) { return sum[c]; });
      write_elements(out.dgamma, [&](int64_t c) { return correlation[c] * inverse(c); });
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
    write_elements(out.dgamma, [&](int64_t i) { return sums.total(i); });
    write_elements(out.dbeta, [&](int64_t i) { return sums.total(g.features + i); });
  }
};

}  // namespace

std::shared_ptr<NormalizationKernels> make_normalization(CpuDevice& device) {
  return std::make_shared<Normalization>(device);
}

}  // namespace whisker::cpu
