// The formulas of norms, forward and backward, per element and per channel.
#pragma once

namespace whisker::cuda {

/// z = (x - mean) scale + beta, scale = gamma inv_std. Forward and backward compute z by this one
/// expression, so that both find the same sign.
__device__ inline float normalised(float x, float center, float scale, float shift) {
  return fmaf(x - center, scale, shift);
}

/// a factor + b other + shift, the second product first: dx of dz and x - mean, or z of two
/// tensors.
__device__ inline float two_terms(float a, float factor, float b, float other, float shift) {
  return fmaf(a, factor, fmaf(b, other, shift));
}

/// What dx = scale dz + slope (x - mean) + shift owes to the statistics, from sum(dz) and sum(dz (x
/// - mean)) over `rows`.
struct ThroughStatistics {
  float slope, shift;

  __device__ ThroughStatistics(float scale, float inv_std, float sum, float correlation, float rows)
      : slope(-scale * inv_std * inv_std * correlation / rows), shift(-scale * sum / rows) {}
};

/// Adds a deviation to the sums of a variance.
__device__ inline void add_deviation(float deviation, float& sum, float& squares) {
  sum += deviation;
  squares = fmaf(deviation, deviation, squares);
}

}  // namespace whisker::cuda
