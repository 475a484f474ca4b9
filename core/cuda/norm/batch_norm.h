// The operands of a norm in kernels, and passes of batch normalisation that fused kernels begin
// with.
#pragma once

#include "core/backend/normalization.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/memory/operand.h"

namespace whisker {
struct TrainingNorm;
}  // namespace whisker

namespace whisker::cuda {

using DeviceNorm = BasicNormSaved<Operand>;
using DeviceNormGrads = BasicNormGrads<Operand>;
using DeviceUnsummedGrads = BasicUnsummedGrads<Operand>;

/// Throws internal where x is not f32.
inline Operand f32_operand(const Tensor& x) {
  return {f32(x)};
}
/// Throws internal where the statistics are not f32.
inline DeviceNorm device_norm(const NormSaved& norm) {
  f32(norm.mean);
  f32(norm.inv_std);
  return norm.map(operand);
}
inline DeviceNorm device_norm(const NormInputs& in, const NormOutputs& out) {
  return device_norm(NormSaved{.x = in.x,
                               .gamma = in.gamma,
                               .beta = in.beta,
                               .y = out.y,
                               .mean = out.mean,
                               .inv_std = out.inv_std});
}
DeviceNorm device_norm(const TrainingNorm& norm);

namespace kernels {

/// The first pass of training: writes mean, inv_std and the pending running statistics, from norm.x
/// or, where they are defined, from norm.sums; from those the variance, too, where it is defined.
void batch_norm_statistics(Context& context, Allocator& allocator, const TrainingNorm& norm);

/// Coefficients of dx = scale dz + (x - mean) slope + shift, f32 (channels) each, or null.
struct InputCoefficients {
  float* slope = nullptr;
  float* shift = nullptr;
  float rows = 0;  // of the statistics
};
/// The first pass of batch_norm_backward, over any rows that contain all of dy: writes out.dgamma,
/// out.dbeta, `k` and out.dresidual = dz.
void batch_norm_gradient_sums(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                              const DeviceNorm& norm, const DeviceUnsummedGrads& dy,
                              const DeviceNormGrads& out, const InputCoefficients& k);
/// The second pass: out.dx from out.dresidual = dz, which may be dx, or where that is null from dy.
void batch_norm_input_gradient(Context& context, const BatchNormGeometry& g, const DeviceNorm& norm,
                               const DeviceUnsummedGrads& dy, const DeviceNormGrads& out,
                               const InputCoefficients& k);

}  // namespace kernels
}  // namespace whisker::cuda
