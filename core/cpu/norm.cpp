// Batch normalisation: statistics and per-channel factors around the passes of batch_norm.cpp.
// Per-channel tensors are padded with zeros to the lanes of the arrangement, so that padding
// channels of a blocked form stay zero.
#include "core/cpu/arrangement.h"
#include "core/cpu/backend_class.h"
#include "core/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace whisker::cpu {
namespace {

/// The arrangement that `x` is in, as pictures.
Arrangement norm_arrangement(const BatchNormGeometry& g, const Tensor& x) {
  return arrangement_of(x, {.n = g.n, .places = g.h * g.w, .channels = g.channels});
}

NormPlanes norm_planes(const BatchNormGeometry& g, const Arrangement& a) {
  return {.planes = a.planes(), .places = a.places, .relu = g.activation.kind == Activation::relu};
}

/// An operand that may be undefined.
std::optional<ArrangedInput> arranged(Allocator& allocator, const Tensor& x, const Arrangement& a) {
  if (!x.defined()) return std::nullopt;
  return std::optional<ArrangedInput>(std::in_place, allocator, x, a);
}
float* values(const std::optional<ArrangedInput>& x) {
  return x ? x->data() : nullptr;
}

/// A per-channel array of the arrangement's length, from `values` (channels) or zeros.
class Lanes {
 public:
  Lanes(Allocator& allocator, const NormPlanes& p, const float* values = nullptr)
      : memory_(allocator, p.lanes()) {
    std::fill_n(memory_.data(), p.lanes(), 0.0f);
    if (values) std::copy_n(values, p.planes.channels, memory_.data());
  }
  float* data() const { return memory_.data(); }
  float& operator[](int64_t i) const { return memory_[i]; }

 private:
  Scratch<float> memory_;
};

}  // namespace

void CpuBackend::batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                  const Tensor& beta, const Tensor& residual, const Tensor& y,
                                  const Tensor& mean, const Tensor& inverse_deviation,
                                  const Tensor& variance) {
  const Arrangement a = norm_arrangement(g, x);
  const NormPlanes p = norm_planes(g, a);
  const ArrangedInput in(allocator_, x, a);
  const auto added = arranged(allocator_, residual, a);
  // Sums of differences from the first place: no cancellation, whatever the mean.
  const Lanes shift(allocator_, p);
  for (int64_t c = 0; c < g.channels; ++c) {
    shift[c] = in.data()[c / p.planes.inner * p.places * p.planes.inner + c % p.planes.inner];
  }
  const Scratch<double> sum = scratch<double>(p.lanes());
  const Scratch<double> squares = scratch<double>(p.lanes());
  norm_moments(allocator_, p, in.data(), shift.data(), sum.data(), squares.data());
  const Lanes center(allocator_, p);
  const Lanes scale(allocator_, p);
  const Lanes offset(allocator_, p, f32(beta));
  const auto rows = static_cast<double>(g.rows);
  for (int64_t c = 0; c < g.channels; ++c) {
    const double d = sum[c] / rows;
    const double deviations = std::max(squares[c] - sum[c] * d, 0.0);
    const double inverse = 1 / std::sqrt(deviations / rows + g.epsilon);
    center[c] = static_cast<float>(static_cast<double>(shift[c]) + d);
    scale[c] = static_cast<float>(static_cast<double>(f32(gamma)[c]) * inverse);
    f32(mean)[c] = center[c];
    f32(inverse_deviation)[c] = static_cast<float>(inverse);
    f32(variance)[c] = static_cast<float>(deviations / std::max(rows - 1, 1.0));
  }
  ArrangedOutput out(allocator_, y, a);
  norm_apply(p, in.data(), values(added), center.data(), scale.data(), offset.data(), out.values());
  out.finish();
}

void CpuBackend::batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                      const Tensor& gamma, const Tensor& beta,
                                      const Tensor& residual, const Tensor& mean,
                                      const Tensor& variance, const Tensor& y) {
  const Arrangement a = norm_arrangement(g, x);
  const NormPlanes p = norm_planes(g, a);
  const Lanes center(allocator_, p, f32(mean));
  const Lanes scale(allocator_, p);
  const Lanes offset(allocator_, p, f32(beta));
  for (int64_t c = 0; c < g.channels; ++c) {
    scale[c] = static_cast<float>(static_cast<double>(f32(gamma)[c]) /
                                  std::sqrt(static_cast<double>(f32(variance)[c]) + g.epsilon));
  }
  const ArrangedInput in(allocator_, x, a);
  const auto added = arranged(allocator_, residual, a);
  ArrangedOutput out(allocator_, y, a);
  norm_apply(p, in.data(), values(added), center.data(), scale.data(), offset.data(), out.values());
  out.finish();
}

void CpuBackend::batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                     const Tensor& x, const Tensor& gamma, const Tensor& y,
                                     const Tensor& mean, const Tensor& inverse_deviation,
                                     const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                                     const Tensor& dbeta, const Tensor& dresidual) {
  const Arrangement a = norm_arrangement(g, x.defined() ? x : dy);
  const NormPlanes p = norm_planes(g, a);
  const auto in = arranged(allocator_, x, a);
  const auto out = arranged(allocator_, p.relu ? y : Tensor(), a);
  const ArrangedInput gradient(allocator_, dy, a);
  std::optional<ArrangedOutput> for_residual;
  if (dresidual.defined()) for_residual.emplace(allocator_, dresidual, a);
  const Lanes center(allocator_, p, f32(mean));
  const Scratch<double> sum = scratch<double>(p.lanes());
  const Scratch<double> correlation = scratch<double>(p.lanes());
  norm_backward_sums(allocator_, p, values(in), values(out), gradient.data(), center.data(),
                     for_residual ? for_residual->values() : nullptr, sum.data(),
                     correlation.data());
  const Lanes scale(allocator_, p);
  const Lanes offset(allocator_, p);
  const Lanes slope(allocator_, p);
  const auto rows = static_cast<double>(g.rows);
  for (int64_t c = 0; c < g.channels; ++c) {
    const double inverse = f32(inverse_deviation)[c];
    if (dbeta.defined()) f32(dbeta)[c] = static_cast<float>(sum[c]);
    if (dgamma.defined()) f32(dgamma)[c] = static_cast<float>(correlation[c] * inverse);
    if (!dx.defined()) continue;
    const double factor = static_cast<double>(f32(gamma)[c]) * inverse;
    scale[c] = static_cast<float>(factor);
    offset[c] = static_cast<float>(factor * sum[c] / rows);
    slope[c] = static_cast<float>(factor * correlation[c] * inverse * inverse / rows);
  }
  if (dx.defined()) {
    ArrangedOutput for_x(allocator_, dx, a);
    norm_backward_apply(p, values(in), values(out), gradient.data(), center.data(), scale.data(),
                        offset.data(), batch_statistics ? slope.data() : nullptr, for_x.values());
    for_x.finish();
  }
  // Last: the gradient may be read from the memory that finishing replaces.
  if (for_residual) for_residual->finish();
}

}  // namespace whisker::cpu
