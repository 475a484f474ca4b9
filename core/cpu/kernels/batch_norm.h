// The passes of batch normalisation, in any layout of channels. Per-channel arrays are as
// long as the padded channels (blocks inner).
#pragma once

#include "core/cpu/layout/planes.h"
#include "core/cpu/support/allocator.h"

namespace whisker::cpu {

/// What every pass runs over: p.outer() planes of `positions` rows, each p.inner channels wide.
struct NormPlanes {
  Planes planes;
  int64_t positions = 0;
  bool relu = false;

  int64_t lanes() const { return planes.blocks * planes.inner; }
};

// T is float or bf16_t; arrays per channel are f32 or f64.

/// sum and squares (lanes): sums of (x - shift) and (x - shift)^2 per channel, in f64.
template <class T>
void norm_moments(Allocator& allocator, const NormPlanes& p, const T* x, const float* shift,
                  double* sum, double* squares);
/// y = f((x - mean) scale + beta + residual); residual may be null.
template <class T>
void norm_apply(const NormPlanes& p, const T* x, const T* residual, const float* mean,
                const float* scale, const float* beta, T* y);
/// dz = f'(y) dy; sum and correlation (lanes) are the sums of dz and dz (x - mean). dz is written
/// to dresidual unless that is null; x may be null, then correlation is not computed.
template <class T>
void norm_backward_sums(Allocator& allocator, const NormPlanes& p, const T* x, const T* y,
                        const T* dy, const float* mean, T* dresidual, double* sum,
                        double* correlation);
/// dx = scale dz - offset - slope (x - mean); slope may be null.
template <class T>
void norm_backward_apply(const NormPlanes& p, const T* x, const T* y, const T* dy,
                         const float* mean, const float* scale, const float* offset,
                         const float* slope, T* dx);

}  // namespace whisker::cpu
