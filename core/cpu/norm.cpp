// Batch normalisation: statistics and per-channel factors around the passes of batch_norm.cpp.
// Per-channel tensors are padded with zeros to the lanes of the arrangement, so that padding
// channels of a blocked form stay zero.
#include "core/cpu/backend_class.h"
#include "core/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace whisker::cpu {
namespace {

NormPlanes norm_planes(const BatchNormGeometry& g) {
  return {.planes = {.n = 1, .blocks = 1, .inner = g.channels, .channels = g.channels},
          .places = g.rows,
          .relu = g.activation.kind == Activation::relu};
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
  const NormPlanes p = norm_planes(g);
  const float* from = f32(x);
  // Sums of differences from the first row: no cancellation, whatever the mean.
  const Lanes shift(allocator_, p, from);
  const Scratch<double> sum = scratch<double>(p.lanes());
  const Scratch<double> squares = scratch<double>(p.lanes());
  norm_moments(allocator_, p, from, shift.data(), sum.data(), squares.data());
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
  norm_apply(p, from, residual.defined() ? f32(residual) : nullptr, center.data(), scale.data(),
             offset.data(), f32(y));
}

void CpuBackend::batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                      const Tensor& gamma, const Tensor& beta,
                                      const Tensor& residual, const Tensor& mean,
                                      const Tensor& variance, const Tensor& y) {
  const NormPlanes p = norm_planes(g);
  const Lanes center(allocator_, p, f32(mean));
  const Lanes scale(allocator_, p);
  const Lanes offset(allocator_, p, f32(beta));
  for (int64_t c = 0; c < g.channels; ++c) {
    scale[c] = static_cast<float>(static_cast<double>(f32(gamma)[c]) /
                                  std::sqrt(static_cast<double>(f32(variance)[c]) + g.epsilon));
  }
  norm_apply(p, f32(x), residual.defined() ? f32(residual) : nullptr, center.data(), scale.data(),
             offset.data(), f32(y));
}

void CpuBackend::batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                     const Tensor& x, const Tensor& gamma, const Tensor& y,
                                     const Tensor& mean, const Tensor& inverse_deviation,
                                     const Tensor& dy, const Tensor& dx, const Tensor& dgamma,
                                     const Tensor& dbeta, const Tensor& dresidual) {
  const NormPlanes p = norm_planes(g);
  const float* from = x.defined() ? f32(x) : nullptr;
  const float* out = p.relu ? f32(y) : nullptr;
  const float* gradient = f32(dy);
  const Lanes center(allocator_, p, f32(mean));
  const Scratch<double> sum = scratch<double>(p.lanes());
  const Scratch<double> correlation = scratch<double>(p.lanes());
  norm_backward_sums(allocator_, p, from, out, gradient, center.data(),
                     dresidual.defined() ? f32(dresidual) : nullptr, sum.data(),
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
  if (!dx.defined()) return;
  norm_backward_apply(p, from, out, gradient, center.data(), scale.data(), offset.data(),
                      batch_statistics ? slope.data() : nullptr, f32(dx));
}

}  // namespace whisker::cpu
