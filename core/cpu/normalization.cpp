// Batch, layer and group normalisation. Of batch_norm, statistics and per-channel factors around
// the passes of kernels/batch_norm.cpp: per-channel tensors are padded with zeros to the lanes of
// the layout, so that padding channels of a blocked form stay zero; images may be bf16, gamma and
// beta too; statistics are f32 and computed in f64. layer_norm goes row by row: statistics in f64
// of f32 differences from the row's first value. group_norm goes through batch_norm's passes, where
// each example's channels have lanes of their own, which are added up to those of a group.
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
#include <optional>

namespace whisker::cpu {
namespace {

/// The layout that `x` is in, as images.
ImageLayout norm_layout(const BatchNormGeometry& g, const Tensor& x) {
  return layout_of(x, {.n = g.n, .positions = g.h * g.w, .channels = g.channels});
}

/// An operand that may be undefined.
std::optional<LayoutInput> in_layout(Allocator& allocator, const Tensor& x, const ImageLayout& a) {
  if (!x.defined()) return std::nullopt;
  return std::optional<LayoutInput>(std::in_place, allocator, x, a);
}
template <class T>
T* values(const std::optional<LayoutInput>& x) {
  return x ? x->data<T>() : nullptr;
}

/// A per-channel array of the layout's length: zeros, or `values` before them, where they are
/// defined, again for each example of group_norm.
class Lanes {
 public:
  Lanes(Allocator& allocator, const ImageLayout& a) : memory_(allocator, a.lanes()) {
    std::fill_n(memory_.data(), a.lanes(), 0.0f);
  }
  Lanes(Allocator& allocator, const ImageLayout& a, const Tensor& values) : Lanes(allocator, a) {
    if (!values.defined()) return;
    visit_element("batch_norm", values.dtype(), [&]<class T>() {
      const T* from = static_cast<const T*>(values.raw());
      for (int64_t first = 0, count = values.count(); first < a.channels; first += count) {
        for (int64_t c = 0; c < count; ++c) memory_[first + c] = load(from[c]);
      }
    });
  }
  float* data() const { return memory_.data(); }
  float& operator[](int64_t i) const { return memory_[i]; }

 private:
  Scratch<float> memory_;
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

/// group_norm's images: an example is a block of channels, so that a lane is a channel of one
/// example.
ImageLayout group_layout(const GroupNormGeometry& g) {
  const ImageLayout image{.n = 1, .positions = g.positions, .channels = g.n * g.channels};
  return image.blocked(g.channels);
}

/// Sums per lane of differences from its first value, and of their squares: no cancellation,
/// whatever the mean.
template <class T>
struct LaneMoments {
  LaneMoments(Allocator& allocator, const ImageLayout& a, const T* x)
      : shift(allocator, a), sum(allocator, a.lanes()), squares(allocator, a.lanes()) {
    for (int64_t first = 0, inner = a.inner(); first < a.channels; first += inner) {
      const T* const plane = x + first * a.positions;
      for (int64_t c = 0; c < std::min(inner, a.channels - first); ++c) {
        shift[first + c] = load(plane[c]);
      }
    }
    NormPasses<T>::moments(allocator, a, x, shift.data(), sum.data(), squares.data());
  }
  Lanes shift;
  Scratch<double> sum, squares;
};

class Normalization final : public NormalizationKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void batch_norm_train(const BatchNormGeometry& g, const NormInputs& in, const NormOutputs& out,
                        const RunningStatistics& running) override {
    const ImageLayout a = norm_layout(g, in.x);
    const LayoutInput from(allocator_, in.x, a);
    const auto added = in_layout(allocator_, in.residual, a);
    const Lanes center(allocator_, a);
    const Lanes scale(allocator_, a, in.gamma);
    const Lanes offset(allocator_, a, in.beta);
    visit_element("batch_norm", out.y.dtype(), [&]<class T>() {
      const LaneMoments<T> moments(allocator_, a, from.data<T>());
      const auto& [shift, sum, squares] = moments;
      const auto rows = static_cast<double>(g.rows);
      for (int64_t c = 0; c < g.channels; ++c) {
        const double d = sum[c] / rows;
        const double deviations = std::max(squares[c] - sum[c] * d, 0.0);
        const double inverse = 1 / std::sqrt(deviations / rows + g.epsilon);
        center[c] = static_cast<float>(static_cast<double>(shift[c]) + d);
        scale[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse);
        f32(out.mean)[c] = center[c];
        f32(out.inv_std)[c] = static_cast<float>(inverse);
        if (!running.mean.defined()) continue;
        const auto average = [&](const Tensor& before, double batch, const Tensor& after) {
          f32(after)[c] =
              static_cast<float>((1 - running.momentum) * static_cast<double>(f32(before)[c]) +
                                 running.momentum * batch);
        };
        average(running.mean, static_cast<double>(shift[c]) + d, running.pending_mean);
        average(running.variance, deviations / std::max(rows - 1, 1.0), running.pending_variance);
      }
      LayoutOutput to(allocator_, out.y, a);
      NormPasses<T>::apply(a, g.activation.kind, from.data<T>(), values<T>(added),
                           {center.data(), scale.data(), offset.data()}, to.data<T>());
      to.finish();
    });
  }

  void batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                            const KnownStatistics& statistics, const Tensor& y) override {
    const ImageLayout a = norm_layout(g, in.x);
    const Lanes center(allocator_, a, statistics.mean);
    const Lanes scale(allocator_, a, in.gamma);
    const Lanes offset(allocator_, a, in.beta);
    for (int64_t c = 0; c < g.channels; ++c) {
      scale[c] = static_cast<float>(
          static_cast<double>(scale[c]) /
          std::sqrt(static_cast<double>(f32(statistics.variance)[c]) + g.epsilon));
    }
    const LayoutInput from(allocator_, in.x, a);
    const auto added = in_layout(allocator_, in.residual, a);
    LayoutOutput to(allocator_, y, a);
    visit_element("batch_norm", y.dtype(), [&]<class T>() {
      NormPasses<T>::apply(a, g.activation.kind, from.data<T>(), values<T>(added),
                           {center.data(), scale.data(), offset.data()}, to.data<T>());
    });
    to.finish();
  }

  void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                           const UnsummedGrads& dy, const NormGrads& out) override {
    const ImageLayout a = norm_layout(g, saved.x.defined() ? saved.x : dy.first);
    const auto from = in_layout(allocator_, saved.x, a);
    const auto after =
        in_layout(allocator_, slope_from_x(g.activation.kind) ? no_tensor : saved.y, a);
    const LayoutInput gradient(allocator_, dy.first, a);
    const Lanes center(allocator_, a, saved.mean);
    const bool of_x = slope_from_x(g.activation.kind);
    const Lanes scale(allocator_, a, of_x || out.dx.defined() ? saved.gamma : no_tensor);
    const Lanes beta(allocator_, a, of_x ? saved.beta : no_tensor);
    const auto inverse = [&](int64_t c) { return double{f32(saved.inv_std)[c]}; };
    if (of_x || out.dx.defined()) {
      for (int64_t c = 0; c < g.channels; ++c) {
        scale[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse(c));
      }
    }
    const NormFactors factors{center.data(), scale.data(), beta.data()};
    visit_element("batch_norm", dy.first.dtype(), [&]<class T>() {
      std::optional<LayoutOutput> for_residual;
      if (out.dresidual.defined()) for_residual.emplace(allocator_, out.dresidual, a);
      const Scratch<double> sum = scratch<double>(a.lanes());
      const Scratch<double> correlation = scratch<double>(a.lanes());
      NormPasses<T>::backward_sums(allocator_, a, g.activation.kind, values<T>(from),
                                   values<T>(after), gradient.data<T>(), factors,
                                   for_residual ? for_residual->data<T>() : nullptr, sum.data(),
                                   correlation.data());
      write_channels(out.dbeta, [&](int64_t c) { return sum[c]; });
      write_channels(out.dgamma, [&](int64_t c) { return correlation[c] * inverse(c); });
      if (out.dx.defined()) {
        const Lanes offset(allocator_, a);
        const Lanes slope(allocator_, a);
        const auto rows = static_cast<double>(g.rows);
        for (int64_t c = 0; c < g.channels; ++c) {
          const auto factor = static_cast<double>(scale[c]);
          offset[c] = static_cast<float>(factor * sum[c] / rows);
          slope[c] = static_cast<float>(factor * correlation[c] * inverse(c) * inverse(c) / rows);
        }
        LayoutOutput for_x(allocator_, out.dx, a);
        NormPasses<T>::backward_apply(a, g.activation.kind, values<T>(from), values<T>(after),
                                      gradient.data<T>(), factors, offset.data(),
                                      g.training ? slope.data() : nullptr, for_x.data<T>());
        for_x.finish();
      }
      // Last: the gradient may be read from the memory that finishing replaces.
      if (for_residual) for_residual->finish();
    });
  }

  void layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    if (!in_f32("layer_norm", out.y)) {
      return via_f32([&](ViaF32& t) { layer_norm(g, t.in(in), t.out(out)); });
    }
    const float* from = f32(in.x);
    const float* scale = f32(in.gamma);
    const float* shift = f32(in.beta);
    float* to = f32(out.y);
    float* means = f32(out.mean);
    float* inverses = f32(out.inv_std);
    const auto features = static_cast<double>(g.features);
    parallel_ranges(g.rows, rows_grain(g.features), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const float* row = from + r * g.features;
        const Moments m = row_moments(row, row[0], g.features);
        const double d = m.sum / features;
        const double variance = std::max(m.squares / features - d * d, 0.0);
        means[r] = static_cast<float>(static_cast<double>(row[0]) + d);
        inverses[r] = static_cast<float>(1 / std::sqrt(variance + g.epsilon));
        map([mean = means[r], inverse = inverses[r]](
                float x, float gamma, float beta) { return (x - mean) * inverse * gamma + beta; },
            to + r * g.features, g.features, row, scale, shift);
      }
    });
  }

  void layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    if (!in_f32("layer_norm", dy)) {
      return via_f32([&](ViaF32& t) { layer_norm_backward(g, t.in(saved), t.in(dy), t.out(out)); });
    }
    if (!saved.x.defined()) {  // only beta learns
      if (out.dbeta.defined()) column_sums(allocator_, f32(dy), g.rows, g.features, f32(out.dbeta));
      return;
    }
    const float* from = f32(saved.x);
    const float* gradient = f32(dy);
    const float* means = f32(saved.mean);
    const float* inverses = f32(saved.inv_std);
    if (out.dx.defined()) {
      const float* scale = f32(saved.gamma);
      float* to = f32(out.dx);
      const auto features = static_cast<double>(g.features);
      parallel_ranges(g.rows, rows_grain(g.features), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
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
        }
      });
    }
    if (!out.dgamma.defined() && !out.dbeta.defined()) return;
    const ThreadSums sums(allocator_, g.rows, rows_grain(g.features), 2 * g.features);
    parallel_ranges(g.rows, rows_grain(g.features), [&](int64_t begin, int64_t end, int thread) {
      double* own = sums.of(thread);
      for (int64_t r = begin; r < end; ++r) {
        add_parameter_gradients(from + r * g.features, gradient + r * g.features, means[r],
                                inverses[r], own, own + g.features, g.features);
      }
    });
    write_channels(out.dgamma, [&](int64_t i) { return sums.total(i); });
    write_channels(out.dbeta, [&](int64_t i) { return sums.total(g.features + i); });
  }

  void group_norm(const GroupNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    const ImageLayout a = group_layout(g);
    const Lanes center(allocator_, a), scale(allocator_, a, in.gamma);
    const Lanes beta(allocator_, a, in.beta);
    const auto positions = static_cast<double>(g.positions);
    const auto channels = static_cast<double>(g.per_group());
    visit_element("group_norm", out.y.dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(in.x.raw());
      const LaneMoments<T> moments(allocator_, a, x);
      const auto& [shift, sum, squares] = moments;
      for (int64_t group = 0; group < g.n * g.groups; ++group) {
        const int64_t first = group * g.per_group(), last = first + g.per_group();
        const auto mean_of = [&](int64_t c) { return double{shift[c]} + sum[c] / positions; };
        double mean = 0;
        for (int64_t c = first; c < last; ++c) mean += mean_of(c);
        mean /= channels;
        double deviations = 0;  // squared: within the channels, and of their means
        for (int64_t c = first; c < last; ++c) {
          const double d = mean_of(c) - mean;
          deviations += std::max(squares[c] - sum[c] * sum[c] / positions, 0.0) + positions * d * d;
        }
        const double inverse = 1 / std::sqrt(deviations / (positions * channels) + g.epsilon);
        f32(out.mean)[group] = static_cast<float>(mean);
        f32(out.inv_std)[group] = static_cast<float>(inverse);
        for (int64_t c = first; c < last; ++c) {
          center[c] = static_cast<float>(mean);
          scale[c] = static_cast<float>(double{scale[c]} * inverse);
        }
      }
      NormPasses<T>::apply(a, Activation::none, x, nullptr,
                           {center.data(), scale.data(), beta.data()},
                           static_cast<T*>(out.y.raw()));
    });
  }

  void group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    const ImageLayout a = group_layout(g);
    const Lanes center(allocator_, a);
    const Lanes scale(allocator_, a, out.dx.defined() ? saved.gamma : no_tensor);
    for (int64_t group = 0; saved.x.defined() && group < g.n * g.groups; ++group) {
      std::fill_n(center.data() + group * g.per_group(), g.per_group(), f32(saved.mean)[group]);
    }
    const NormFactors factors{center.data(), scale.data(), center.data()};
    visit_element("group_norm", dy.dtype(), [&]<class T>() {
      const T* x = saved.x.defined() ? static_cast<const T*>(saved.x.raw()) : nullptr;
      const T* d = static_cast<const T*>(dy.raw());
      const Scratch<double> sum = scratch<double>(a.lanes());
      const Scratch<double> correlation = scratch<double>(a.lanes());
      NormPasses<T>::backward_sums(allocator_, a, Activation::none, x, nullptr, d, factors, nullptr,
                                   sum.data(), correlation.data());
      const Scratch<double> parameters = scratch<double>(2 * g.channels);  // dbeta, dgamma
      std::fill_n(parameters.data(), 2 * g.channels, 0.0);
      const Lanes offset(allocator_, a), slope(allocator_, a);
      const auto values = static_cast<double>(g.positions * g.per_group());
      for (int64_t first = 0; first < a.lanes(); first += g.per_group()) {
        const int64_t last = first + g.per_group();
        const double inverse = x ? double{f32(saved.inv_std)[first / g.per_group()]} : 0;
        double* const dbeta = parameters.data() + first % g.channels;
        double of_group = 0;
        double correlation_of_group = 0;
        for (int64_t c = first; c < last; ++c) {
          dbeta[c - first] += sum[c];
          dbeta[g.channels + c - first] += correlation[c] * inverse;
          of_group += double{scale[c]} * sum[c];
          correlation_of_group += double{scale[c]} * correlation[c];
        }
        for (int64_t c = first; out.dx.defined() && c < last; ++c) {
          scale[c] = static_cast<float>(double{scale[c]} * inverse);
          offset[c] = static_cast<float>(of_group / values * inverse);
          slope[c] =
              static_cast<float>(correlation_of_group / values * inverse * inverse * inverse);
        }
      }
      write_channels(out.dbeta, [&](int64_t c) { return parameters[c]; });
      write_channels(out.dgamma, [&](int64_t c) { return parameters[g.channels + c]; });
      if (!out.dx.defined()) return;
      NormPasses<T>::backward_apply(a, Activation::none, x, nullptr, d, factors, offset.data(),
                                    slope.data(), static_cast<T*>(out.dx.raw()));
    });
  }
};

}  // namespace

std::shared_ptr<NormalizationKernels> make_normalization(CpuDevice& device) {
  return std::make_shared<Normalization>(device);
}

}  // namespace whisker::cpu
