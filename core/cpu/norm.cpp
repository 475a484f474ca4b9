// Batch normalisation: statistics and per-channel factors around the passes of batch_norm.cpp.
// Per-channel tensors are padded with zeros to the lanes of the layout, so that padding
// channels of a blocked form stay zero. Images may be bf16, gamma and beta too; statistics are
// f32 and computed in f64.
#include "core/autograd/autograd.h"
#include "core/cpu/backend_class.h"
#include "core/cpu/kernels/batch_norm.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/element.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace whisker::cpu {
namespace {

/// The layout that `x` is in, as images.
ImageLayout norm_layout(const BatchNormGeometry& g, const Tensor& x) {
  return layout_of(x, {.n = g.n, .positions = g.h * g.w, .channels = g.channels});
}

NormPlanes norm_planes(const BatchNormGeometry& g, const ImageLayout& a) {
  return {.planes = a.planes(),
          .positions = a.positions,
          .relu = g.activation.kind == Activation::relu};
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

/// A per-channel array of the layout's length: zeros, or `values` (channels) before them.
class Lanes {
 public:
  Lanes(Allocator& allocator, const NormPlanes& p) : memory_(allocator, p.lanes()) {
    std::fill_n(memory_.data(), p.lanes(), 0.0f);
  }
  Lanes(Allocator& allocator, const NormPlanes& p, const Tensor& values) : Lanes(allocator, p) {
    visit_element("batch_norm", values.dtype(), [&]<class T>() {
      const T* from = static_cast<const T*>(values.raw());
      for (int64_t c = 0; c < p.planes.channels; ++c) memory_[c] = load(from[c]);
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

}  // namespace

void CpuBackend::batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                  const Tensor& beta, const Tensor& residual, const Tensor& y,
                                  const Tensor& mean, const Tensor& inv_std,
                                  const RunningStatistics& running) {
  const ImageLayout a = norm_layout(g, x);
  const NormPlanes p = norm_planes(g, a);
  const LayoutInput in(allocator_, x, a);
  const auto added = in_layout(allocator_, residual, a);
  const Lanes center(allocator_, p);
  const Lanes scale(allocator_, p, gamma);
  const Lanes offset(allocator_, p, beta);
  visit_element("batch_norm", y.dtype(), [&]<class T>() {
    // Sums of differences from the first place: no cancellation, whatever the mean.
    const Lanes shift(allocator_, p);
    for (int64_t c = 0; c < g.channels; ++c) {
      const int64_t plane = c / p.planes.inner * p.positions;
      shift[c] = load(in.data<T>()[plane * p.planes.inner + c % p.planes.inner]);
    }
    const Scratch<double> sum = scratch<double>(p.lanes());
    const Scratch<double> squares = scratch<double>(p.lanes());
    norm_moments(allocator_, p, in.data<T>(), shift.data(), sum.data(), squares.data());
    const auto rows = static_cast<double>(g.rows);
    for (int64_t c = 0; c < g.channels; ++c) {
      const double d = sum[c] / rows;
      const double deviations = std::max(squares[c] - sum[c] * d, 0.0);
      const double inverse = 1 / std::sqrt(deviations / rows + g.epsilon);
      center[c] = static_cast<float>(static_cast<double>(shift[c]) + d);
      scale[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse);
      f32(mean)[c] = center[c];
      f32(inv_std)[c] = static_cast<float>(inverse);
      if (!running.mean.defined()) continue;
      const auto average = [&](const Tensor& before, double batch, const Tensor& after) {
        f32(after)[c] =
            static_cast<float>((1 - running.momentum) * static_cast<double>(f32(before)[c]) +
                               running.momentum * batch);
      };
      average(running.mean, static_cast<double>(shift[c]) + d, running.pending_mean);
      average(running.variance, deviations / std::max(rows - 1, 1.0), running.pending_variance);
    }
    LayoutOutput out(allocator_, y, a);
    norm_apply(p, in.data<T>(), values<T>(added), center.data(), scale.data(), offset.data(),
               out.data<T>());
    out.finish();
  });
}

void CpuBackend::batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                      const Tensor& gamma, const Tensor& beta,
                                      const Tensor& residual, const Tensor& mean,
                                      const Tensor& variance, const Tensor& y) {
  const ImageLayout a = norm_layout(g, x);
  const NormPlanes p = norm_planes(g, a);
  const Lanes center(allocator_, p, mean);
  const Lanes scale(allocator_, p, gamma);
  const Lanes offset(allocator_, p, beta);
  for (int64_t c = 0; c < g.channels; ++c) {
    scale[c] = static_cast<float>(static_cast<double>(scale[c]) /
                                  std::sqrt(static_cast<double>(f32(variance)[c]) + g.epsilon));
  }
  const LayoutInput in(allocator_, x, a);
  const auto added = in_layout(allocator_, residual, a);
  LayoutOutput out(allocator_, y, a);
  visit_element("batch_norm", y.dtype(), [&]<class T>() {
    norm_apply(p, in.data<T>(), values<T>(added), center.data(), scale.data(), offset.data(),
               out.data<T>());
  });
  out.finish();
}

void CpuBackend::batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                     const Tensor& x, const Tensor& gamma, const Tensor& /*beta*/,
                                     const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                                     const UnsummedGrads& dy, const Tensor& dx,
                                     const Tensor& dgamma, const Tensor& dbeta,
                                     const Tensor& dresidual) {
  const ImageLayout a = norm_layout(g, x.defined() ? x : dy.first);
  const NormPlanes p = norm_planes(g, a);
  const auto in = in_layout(allocator_, x, a);
  const auto out = in_layout(allocator_, p.relu ? y : Tensor(), a);
  const LayoutInput gradient(allocator_, dy.first, a);
  const Lanes center(allocator_, p, mean);
  visit_element("batch_norm", dy.first.dtype(), [&]<class T>() {
    std::optional<LayoutOutput> for_residual;
    if (dresidual.defined()) for_residual.emplace(allocator_, dresidual, a);
    const Scratch<double> sum = scratch<double>(p.lanes());
    const Scratch<double> correlation = scratch<double>(p.lanes());
    norm_backward_sums(allocator_, p, values<T>(in), values<T>(out), gradient.data<T>(),
                       center.data(), for_residual ? for_residual->data<T>() : nullptr, sum.data(),
                       correlation.data());
    const auto inverse = [&](int64_t c) { return double{f32(inv_std)[c]}; };
    write_channels(dbeta, [&](int64_t c) { return sum[c]; });
    write_channels(dgamma, [&](int64_t c) { return correlation[c] * inverse(c); });
    if (dx.defined()) {
      const Lanes scale(allocator_, p, gamma);
      const Lanes offset(allocator_, p);
      const Lanes slope(allocator_, p);
      const auto rows = static_cast<double>(g.rows);
      for (int64_t c = 0; c < g.channels; ++c) {
        const double factor = static_cast<double>(scale[c]) * inverse(c);
        scale[c] = static_cast<float>(factor);
        offset[c] = static_cast<float>(factor * sum[c] / rows);
        slope[c] = static_cast<float>(factor * correlation[c] * inverse(c) * inverse(c) / rows);
      }
      LayoutOutput for_x(allocator_, dx, a);
      norm_backward_apply(p, values<T>(in), values<T>(out), gradient.data<T>(), center.data(),
                          scale.data(), offset.data(), batch_statistics ? slope.data() : nullptr,
                          for_x.data<T>());
      for_x.finish();
    }
    // Last: the gradient may be read from the memory that finishing replaces.
    if (for_residual) for_residual->finish();
  });
}

}  // namespace whisker::cpu
