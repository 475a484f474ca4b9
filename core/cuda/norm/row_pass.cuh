// Passes of norms over (rows, channels). Each reads a pack of several tensors per row, maps it with
// factors of the thread's channels or adds it up to two sums per channel, and writes what remains:
// map_rows and sum_rows over the loops of core/cuda/ops/channel_sums.cuh.
#pragma once

#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/norm_formulas.cuh"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/ops/channel_sums.cuh"

namespace whisker::cuda {

/// Channels of a thread of a gradient's passes: with 16-byte packs, factors, sums and pending loads
/// would not leave a multiprocessor 32 warps.
constexpr int half_pack(int pack) {
  return pack > 1 ? pack / 2 : pack;
}

/// Factors of z for a thread's channels.
template <int V>
struct NormFactors {
  float center[V] = {}, scale[V] = {}, shift[V] = {};

  /// Factors of the channels from `channel` on; 0 for what is not wanted. All loads stand before
  /// the first use: each would else wait for the one before.
  __device__ static NormFactors of(const DeviceNorm& norm, int64_t channel, bool with_center = true,
                                   bool with_scale = true, bool with_shift = true) {
    NormFactors f;
    float inverse[V] = {};
    if (with_center) load(norm.mean.as<float>(), channel, f.center);
    if (with_scale) {
      load(norm.inv_std.as<float>(), channel, inverse);
      load<V>(norm.gamma, channel, f.scale);
    }
    if (with_shift) load<V>(norm.beta, channel, f.shift);
#pragma unroll
    for (int v = 0; v < V; ++v) f.scale[v] *= inverse[v];
    return f;
  }
  __device__ float z(int v, float x) const {
    return normalised(x, center[v], scale[v], shift[v]);
  }
};

/// Stores the gradients of a channel's gamma and beta that are wanted.
__device__ inline void store_parameters(const DeviceNormGrads& out, int64_t channel, float dbeta,
                                        float dgamma) {
  if (out.dbeta.data) store(out.dbeta, channel, dbeta);
  if (out.dgamma.data) store(out.dgamma, channel, dgamma);
}

/// y = f(v, values of x...) for the thread's rows, loaded `Ahead` rows ahead; prepare() reads the
/// factors of its channels.
template <class T, int V, int Ahead, Walk walk, class Prepare, class F, class... X>
__device__ void map_rows(const ChannelLayout& t, T* y, const Prepare& prepare, const F& f, X... x) {
  const auto load = [&](const RowPosition& position) {
    return load_packs<T, V, walk>(position.at, x...);
  };
  const auto use = [&](const RowPosition& position, const auto& row) {
    float out[V];
    row.for_each([&](int v, auto... values) { out[v] = f(v, values...); });
    store_pack<V>(y, position.at, rounded<T>(out));
  };
  if constexpr (walk == Walk::chunk) {
    for_chunk_rows<V, Ahead>(t, load, prepare, use);
  } else {
    for_rows_reversed<V, Ahead>(t, load, prepare, use);
  }
}

/// channel_sums of what add(v, sum, other sum, values of x...) adds; finish(channel, sum, other
/// sum).
template <class T, int V, int Ahead, class Prepare, class Add, class Finish, class... X>
__device__ void sum_rows(const ChannelLayout& t, const SumsMemory& memory, const Prepare& prepare,
                         const Add& add, const Finish& finish, X... x) {
  channel_sums<V, 2, Ahead>(
      t, memory, [&](const RowPosition& position) { return load_packs<T, V>(position.at, x...); },
      prepare,
      [&](const RowPosition&, const auto& row, float(&sums)[2][V]) {
        row.for_each([&](int v, auto... values) { add(v, sums[0][v], sums[1][v], values...); });
      },
      [&](int64_t channel, const auto& sums) { finish(channel, sums.at[0], sums.at[1]); });
}

/// Launches a kernel of map_rows behind a pass with the layout `sums`; `resident` of its blocks fit
/// on a multiprocessor.
template <int V, class... Parameters, class... Arguments>
void launch_map(Context& context, const ChannelLayout& sums, int resident,
                void (*kernel)(ChannelLayout, Parameters...), const Arguments&... arguments) {
  const ChannelLayout t = map_layout(context, sums, V, resident);
  launch_pdl(context, t.grid(), t.threads(), kernel, t, arguments...);
}

}  // namespace whisker::cuda
