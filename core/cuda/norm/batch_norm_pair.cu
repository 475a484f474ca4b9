// Two batch norms at a time. Forward one pass reads both tensors and writes the sum. Backward the
// first pass adds up for both norms and leaves dz = f'(y) dy where the second's gradient will lie;
// the second pass makes both gradients of it, backwards, as what was read last is in the L2 cache.
#include "core/cuda/device/column_sums.cuh"
#include "core/cuda/norm/batch_norm.cuh"
#include "core/cuda/norm/batch_norm_pair.h"

#include <algorithm>

namespace whisker::cuda::kernels {
namespace {

/// Of the passes that write: see map_grid.
constexpr unsigned result_blocks = 3, gradient_blocks = 2;

/// What a row of the two tensors holds for a thread.
template <class T, int V>
struct TwoPacks {
  Unopened<T, V> first, second;
};

/// A thread's channels: both norms as one line, x scale + added scale' + shift. Both ways compute
/// it, so that the backward pass finds the very sign of the forward one without its result.
template <int V>
struct SummedNorms {
  float scale[V] = {}, other_scale[V] = {}, shift[V] = {};

  SummedNorms() = default;
  __device__ SummedNorms(const PairedColumns& first, const PairedColumns& second, int64_t channel) {
    float other_shift[V];
    line_of(first, channel, scale, shift);
    line_of(second, channel, other_scale, other_shift);
#pragma unroll
    for (int v = 0; v < V; ++v) shift[v] += other_shift[v];
  }
  __device__ float at(int v, float x, float added) const {
    return fmaf(x, scale[v], fmaf(added, other_scale[v], shift[v]));
  }

 private:
  /// One norm as x scale + shift.
  __device__ static void line_of(const PairedColumns& norm, int64_t channel, float (&scale)[V],
                                 float (&shift)[V]) {
    float inverse[V], mean[V];
    load<V>(norm.gamma, channel, scale);
    load<V>(norm.beta, channel, shift);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      inverse[v] = norm.inverse_deviation[channel + v];
      mean[v] = norm.mean[channel + v];
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      scale[v] *= inverse[v];
      shift[v] = fmaf(-mean[v], scale[v], shift[v]);
    }
  }
};

// y = f(first norm + second norm).
template <class T, int V>
__global__ void __launch_bounds__(block_threads, result_blocks)
    normalise_pair_kernel(Columns t, bool relu, PairedColumns first, PairedColumns second, T* y) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  SummedNorms<V> norms;
  const auto* x = static_cast<const T*>(first.x);
  const auto* added = static_cast<const T*>(second.x);
  for_rows_upwards<V, 3>(
      t,
      [&](const RowPlace& place) {
        return TwoPacks<T, V>{load_unopened<V>(x, place.at), load_unopened<V>(added, place.at)};
      },
      [&] { norms = SummedNorms<V>(first, second, channel); },
      [&](const RowPlace& place, const TwoPacks<T, V>& in) {
        const auto own = open_pack<T, V>(in.first), other = open_pack<T, V>(in.second);
        Pack<T, V> out;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          float z = norms.at(v, to_f32(own.at[v]), to_f32(other.at[v]));
          if (relu) z = z < 0 ? 0 : z;
          out.at[v] = from_f32<T>(z);
        }
        store_pack<V>(y, place.at, out);
      });
}

/// What a row holds for a thread of the pass that adds up; `more` where it is there.
template <class T, int V>
struct GradientPacks {
  Unopened<T, V> dy, more, x, added;
};

// For each pack of channels sum(dz), sum(dz (x - mean)) and the same of the second norm: sums
// (packs, 3, V). dz (rows, channels), or null, is written on the way, rounded once for all readers.
template <class T, int V>
__global__ void __launch_bounds__(block_threads, 3)
    pair_sums_kernel(ColumnSums<float> g, bool relu, PairedColumns first, PairedColumns second,
                     PairGradient p, T* dz) {
  wait_for_previous();
  const auto* x = static_cast<const T*>(first.x);
  const auto* added = static_cast<const T*>(second.x);
  const auto* dy = static_cast<const T*>(p.dy);
  const auto* more = static_cast<const T*>(p.more);
  const int64_t own = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
  float sum[3 * V] = {};
  if (own < g.packs * V) {
    SummedNorms<V> norms;
    float center[V], other_center[V];
    const auto prepare = [&] {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        center[v] = first.mean[own + v];
        other_center[v] = second.mean[own + v];
      }
      norms = SummedNorms<V>(first, second, own);
    };
    const auto load_row = [&](const RowPlace& place) {
      GradientPacks<T, V> in;
      in.dy = load_unopened<V>(dy, place.at);
      if (more) in.more = load_unopened<V>(more, place.at);
      in.x = load_unopened<V>(x, place.at);
      in.added = load_unopened<V>(added, place.at);
      return in;
    };
    const auto use = [&](const RowPlace& place, const GradientPacks<T, V>& in) {
      auto d = open_pack<T, V>(in.dy);
      const auto term = open_pack<T, V>(in.more);
      const auto one = open_pack<T, V>(in.x), other = open_pack<T, V>(in.added);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float in_x = to_f32(one.at[v]), in_added = to_f32(other.at[v]);
        const T y = from_f32<T>(norms.at(v, in_x, in_added));
        if (more) d.at[v] = from_f32<T>(to_f32(d.at[v]) + to_f32(term.at[v]));
        if (relu && to_f32(y) <= 0) d.at[v] = from_f32<T>(0.0f);
        const float value = to_f32(d.at[v]);
        sum[v] += value;
        sum[V + v] = fmaf(value, in_x - center[v], sum[V + v]);
        sum[2 * V + v] = fmaf(value, in_added - other_center[v], sum[2 * V + v]);
      }
      if (dz) store_pack<V>(dz, place.at, d);
    };
    const Columns t{.rows = g.rows, .channels = g.packs * V};
    const auto [begin, end] = block_rows(g);
    const int64_t row = begin + threadIdx.y;
    const auto down = static_cast<int>(blockDim.y);
    const auto left = static_cast<int>(end - row);
    for_rows<2>(t, {row, row * t.channels + own}, down, (left + down - 1) / down, load_row, prepare,
                use);
  }
  add_parts(g, sum);
}

/// dx = dz of_dz + x of_x + offset, per channel.
template <int V>
struct InputGradient {
  float of_dz[V], of_x[V], offset[V];

  InputGradient() = default;
  __device__ InputGradient(const PairedColumns& norm, int64_t channel, float rows, const float* sum,
                           const float* correlation) {
    load<V>(norm.gamma, channel, of_dz);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float inverse = norm.inverse_deviation[channel + v];
      of_dz[v] *= inverse;
      of_x[v] = -of_dz[v] * inverse * inverse * correlation[v] / rows;
      offset[v] = fmaf(-norm.mean[channel + v], of_x[v], -of_dz[v] * sum[v] / rows);
    }
  }
  template <class T>
  __device__ Pack<T, V> of(const Pack<T, V>& dz, const Pack<T, V>& x) const {
    Pack<T, V> dx;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float through_statistics = fmaf(to_f32(x.at[v]), of_x[v], offset[v]);
      dx.at[v] = from_f32<T>(fmaf(to_f32(dz.at[v]), of_dz[v], through_statistics));
    }
    return dx;
  }
};

template <int V>
__device__ void store_parameter_gradients(const PairedColumns& norm,
                                          const PairedColumnGradients& out, int64_t channel,
                                          const float* sum, const float* correlation) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int64_t c = channel + v;
    if (out.dbeta.data) store(out.dbeta, c, sum[v]);
    if (out.dgamma.data) store(out.dgamma, c, correlation[v] * norm.inverse_deviation[c]);
  }
}

// Both dx from dz, which one of them replaces; and both norms' own gradients, from the sums alone.
template <class T, int V>
__global__ void __launch_bounds__(block_threads, gradient_blocks)
    pair_gradients_kernel(Columns t, PairedColumns first, PairedColumns second, const float* sums,
                          const T* dz, PairGradient p) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  InputGradient<V> gradient, other;
  const auto prepare = [&] {
    float sum[V], correlation[V], other_correlation[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sum[v] = sums[channel * 3 + v];
      correlation[v] = sums[channel * 3 + V + v];
      other_correlation[v] = sums[channel * 3 + 2 * V + v];
    }
    const auto rows = static_cast<float>(t.rows);
    gradient = InputGradient<V>(first, channel, rows, sum, correlation);
    other = InputGradient<V>(second, channel, rows, sum, other_correlation);
    if (blockIdx.y + blockIdx.z == 0 && threadIdx.x < static_cast<unsigned>(t.width)) {
      store_parameter_gradients<V>(first, p.first, channel, sum, correlation);
      store_parameter_gradients<V>(second, p.second, channel, sum, other_correlation);
    }
  };
  if (!dz) return prepare();
  const auto* x = static_cast<const T*>(first.x);
  const auto* added = static_cast<const T*>(second.x);
  auto* dx = static_cast<T*>(p.first.dx);
  auto* dadded = static_cast<T*>(p.second.dx);
  struct Loaded {
    Unopened<T, V> dz;
    TwoPacks<T, V> in;
  };
  for_rows_upwards<V, 6>(
      t,
      [&](const RowPlace& place) {
        return Loaded{load_unopened<V>(dz, place.at),
                      {load_unopened<V>(x, place.at), load_unopened<V>(added, place.at)}};
      },
      prepare,
      [&](const RowPlace& place, const Loaded& row) {
        const auto d = open_pack<T, V>(row.dz);
        if (dx) store_pack<V>(dx, place.at, gradient.of(d, open_pack<T, V>(row.in.first)));
        if (dadded) store_pack<V>(dadded, place.at, other.of(d, open_pack<T, V>(row.in.second)));
      });
}

template <class T, int V>
void backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
              const PairedColumns& first, const PairedColumns& second, const PairGradient& p) {
  auto* const dz = static_cast<T*>(p.second.dx ? p.second.dx : p.first.dx);
  const int64_t packs = g.channels / V;
  constexpr unsigned cache_line = 128 / (sizeof(T) * V);  // in packs
  const ColumnLaunch launch =
      column_launch(g.rows, packs, 3 * V, context.multiprocessors(), std::min(cache_line, 32u));
  const Scratch memory(allocator, 3 * g.channels * int64_t{sizeof(float)} + launch.sums_bytes);
  auto* const sums = memory.as<float>();
  const ColumnSums<float> columns{.rows = g.rows,
                                  .packs = packs,
                                  .sums = launch.sums_bytes > 0 ? sums + 3 * g.channels : nullptr,
                                  .result = sums,
                                  .tickets = context.tickets()};
  launch_early({.stream = context.stream(),
                .capability = context.capability(),
                .shared_bytes = launch.shared_bytes},
               launch.grid, launch.block, pair_sums_kernel<T, V>, columns,
               g.activation.kind == Activation::relu, first, second, p, dz);
  check_launch("batch_norm_pair_backward sums");
  const Columns t = sums_layout(context, g.rows, g.channels, V);
  const dim3 parameters_alone{t.tiles};
  launch_early(context, dz ? map_grid(t, gradient_blocks) : parameters_alone, block_threads,
               pair_gradients_kernel<T, V>, t, first, second, sums, dz, p);
  check_launch("batch_norm_pair_backward");
}

}  // namespace

void normalise_pair(Context& context, const BatchNormGeometry& g, const PairedColumns& first,
                    const PairedColumns& second, void* y) {
  const auto run = [&]<class T, int V>() {
    const Columns t = sums_layout(context, g.rows, g.channels, V);
    launch_early(context, map_grid(t, result_blocks), block_threads, normalise_pair_kernel<T, V>, t,
                 g.activation.kind == Activation::relu, first, second, static_cast<T*>(y));
  };
  with_packs(g.dtype, g.channels, run, first.x, second.x, y);
  check_launch("batch_norm_pair");
}

void batch_norm_pair_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                              const PairedColumns& first, const PairedColumns& second,
                              const PairGradient& p) {
  const auto run = [&]<class T, int V>() {
    // Of packs of 16 bytes the sums, factors and several rows do not fit 80 registers.
    backward<T, (V > 1 ? V / 2 : V)>(context, allocator, g, first, second, p);
  };
  with_packs(g.dtype, g.channels, run, first.x, second.x, p.dy, p.more, p.first.dx, p.second.dx);
}

}  // namespace whisker::cuda::kernels
