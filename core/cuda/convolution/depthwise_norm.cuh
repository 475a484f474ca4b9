// The batch norm before a depthwise convolution, for a thread's channels: what it makes of x, and
// the gradient of its activation.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/depthwise_strips.cuh"
#include "core/cuda/device_code/norm_formulas.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda::depthwise {

/// Calls fn(kind), with a constant, for an activation that a batch_norm computes.
template <class Fn>
__device__ inline void with_norm_activation(Activation kind, const Fn& fn) {
  switch (kind) {
    case Activation::relu:
      return fn(std::integral_constant<Activation, Activation::relu>{});
    case Activation::relu6:
      return fn(std::integral_constant<Activation, Activation::relu6>{});
    case Activation::hard_swish:
      return fn(std::integral_constant<Activation, Activation::hard_swish>{});
    case Activation::silu:
      return fn(std::integral_constant<Activation, Activation::silu>{});
    default:
      return fn(std::integral_constant<Activation, Activation::none>{});
  }
}

class ChannelNorm {
 public:
  __device__ ChannelNorm(const ImageNorm& norm, int channel)
      : some_(norm.mean), kind_(norm.activation.kind) {
    if (!some_) return;
#pragma unroll
    for (int v = 0; v < channels; ++v) {
      center_[v] = norm.mean[channel + v];
      scale_[v] = norm.inv_std[channel + v] * norm.gamma[channel + v];
      shift_[v] = norm.beta[channel + v];
    }
  }

  __device__ float centered(float x, int v) const {
    return x - center_[v];
  }

  /// Normalises columns, rounding to T as the batch_norm alone does; those not `inside` stay 0.
  /// Without a branch: the elements' latencies overlap.
  template <class T, int columns>
  __device__ void apply(uint32_t inside, float (&x)[columns][channels]) const {
    if (!some_) return;
    with_norm_activation(kind_, [&](auto kind) {
#pragma unroll
      for (int u = 0; u < columns; ++u) {
#pragma unroll
        for (int v = 0; v < channels; ++v) x[u][v] = value<kind()>(z(v, x[u][v]));
        const auto rounded = pack_channels<T>(x[u]);
        to_floats<T>(inside >> u & 1 ? rounded : PackBytes<T, channels>{}, x[u]);
      }
    });
  }

  /// g = f'(z) g, z being that of x.
  template <class T>
  __device__ void to_dz(const PackBytes<T, channels> (&x)[tile], float (&g)[tile][channels]) const {
    with_norm_activation(kind_, [&](auto kind) {
#pragma unroll
      for (int t = 0; t < tile; ++t) {
        float saved[channels];
        to_floats<T>(x[t], saved);
#pragma unroll
        for (int v = 0; v < channels; ++v) saved[v] = z(v, saved[v]);
        if constexpr (grad_from_output(kind())) to_floats<T>(pack_channels<T>(saved), saved);
#pragma unroll
        for (int v = 0; v < channels; ++v) {
          g[t][v] = activation_gradient({kind()}, saved[v], g[t][v]);
        }
      }
    });
  }

 private:
  __device__ float z(int v, float x) const {
    return normalised(x, center_[v], scale_[v], shift_[v]);
  }
  template <Activation F>
  __device__ static float value(float z) {
    // One instruction in place of seven; a NaN stays one.
    if constexpr (F == Activation::hard_swish) return z * __saturatef(fmaf(z, 1.0f / 6, 0.5f));
    return activate({F}, z);
  }
  bool some_;
  Activation kind_;
  float center_[channels] = {}, scale_[channels] = {}, shift_[channels] = {};
};

}  // namespace whisker::cuda::depthwise
