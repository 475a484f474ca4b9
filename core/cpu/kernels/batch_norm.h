// The passes of batch normalisation over plain or blocked images. Per-channel arrays are as long as
// the lanes.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/layout/layout.h"
#include "core/cpu/support/allocator.h"

namespace whisker::cpu {

/// Per channel (lanes): z = (x - mean) scale + beta.
struct NormFactors {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* beta = nullptr;

  NormFactors at(int64_t channel) const {
    return {mean + channel, scale + channel, beta + channel};
  }
};

/// True where f' follows from z alone: backward computes z again.
constexpr bool slope_from_x(Activation f) {
  return f == Activation::hard_swish || f == Activation::silu;
}

/// The passes over T, float or bf16_t; arrays per channel are f32 or f64. The activations are those
/// of batch_norm_computes() (core/backend/normalization.h).
template <class T>
struct NormPasses {
  /// sum and squares (lanes): sums of (x - shift) and (x - shift)^2 per channel, in f64.
  static void moments(Allocator& allocator, const ImageLayout& a, const T* x, const float* shift,
                      double* sum, double* squares);
  /// y = f(z + residual); residual may be null.
  static void apply(const ImageLayout& a, Activation f, const T* x, const T* residual,
                    const NormFactors& factors, T* y);
  /// dz = f' dy; sum and correlation (lanes) are the sums of dz and dz (x - mean). dz is written to
  /// dresidual unless that is null; x may be null unless slope_from_x(), then correlation is not
  /// computed. f' follows from x or y; factors.scale and .beta are read for x only.
  static void backward_sums(Allocator& allocator, const ImageLayout& a, Activation f, const T* x,
                            const T* y, const T* dy, const NormFactors& factors, T* dresidual,
                            double* sum, double* correlation);
  /// dx = scale dz - offset - slope (x - mean); slope may be null.
  static void backward_apply(const ImageLayout& a, Activation f, const T* x, const T* y,
                             const T* dy, const NormFactors& factors, const float* offset,
                             const float* slope, T* dx);
};

}  // namespace whisker::cpu
