// Batch normalisation in two passes: one reads and adds up, one reads and writes. The second goes
// through the rows backwards: what the first read last still lies in the L2 cache.
#include "core/cuda/norm/batch_norm.cuh"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda::kernels {
namespace {

// Blocks that add up on a multiprocessor. Normalising 411 MB on an H200 took 407 us with one, whose
// 16 warps read as much ahead, and takes 334 with two.
constexpr int resident = 2;
constexpr unsigned map_blocks = 3;  // see map_grid

/// What the first pass leaves for the others: f32 (channels).
struct Statistics {
  float* mean;
  float* inverse_deviation;
};

// Sums are of deviations from a value near the mean, lest they cancel: the average of four rows
// (Chan, Golub and LeVeque 1983, "shifted data").
template <int V, class T>
__device__ void load_shift(const T* x, const Columns& t, int64_t channel, float (&shift)[V]) {
  Unopened<T, V> rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) rows[i] = load_unopened<V>(x, t.rows * i / 4 * t.channels + channel);
#pragma unroll
  for (int v = 0; v < V; ++v) shift[v] = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto row = open_pack<T, V>(rows[i]);
#pragma unroll
    for (int v = 0; v < V; ++v) shift[v] += 0.25f * to_f32(row.at[v]);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(column_threads, resident)
    statistics_kernel(Columns t, float epsilon, const T* x, Statistics out, Running running,
                      float2* partials, uint32_t* tickets) {
  wait_for_previous();
  __shared__ float tile_shift[tile_channels];
  const int64_t channel = own_channel<V>(t);
  float shift[V];
  const auto prepare = [&] {
    load_shift<V>(x, t, channel, shift);
    if (threadIdx.x >= static_cast<unsigned>(t.width)) return;
#pragma unroll
    for (unsigned v = 0; v < V; ++v) tile_shift[threadIdx.x * V + v] = shift[v];
  };
  const auto load = [&](const RowPlace& place) { return load_unopened<V>(x, place.at); };
  const auto add = [&](const RowPlace&, const Unopened<T, V>& loaded, float(&sum)[V],
                       float(&squares)[V]) {
    const auto pack = open_pack<T, V>(loaded);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float deviation = to_f32(pack.at[v]) - shift[v];
      sum[v] += deviation;
      squares[v] = fmaf(deviation, deviation, squares[v]);
    }
  };
  const auto finish = [&](int64_t c, float sum, float squares) {
    const auto rows = static_cast<float>(t.rows);
    const float offset = sum / rows;
    float spread = squares - sum * offset;
    if (spread < 0) spread = 0;  // by rounding; a NaN stays one
    const float mean = tile_shift[threadIdx.x] + offset;
    out.mean[c] = mean;
    out.inverse_deviation[c] = 1 / sqrtf(spread / rows + epsilon);
    if (!running.mean) return;
    const float variance = spread / fmaxf(rows - 1, 1.0f);
    running.pending_mean[c] = running.kept * running.mean[c] + running.added * mean;
    running.pending_variance[c] = running.kept * running.variance[c] + running.added * variance;
  };
  column_sums<V, 4>(t, partials, tickets, load, prepare, add, finish);
}

// y = f(z + residual). Constant statistics have a variance, those of a batch `inverse_deviation`.
template <class T, int V>
__global__ void __launch_bounds__(block_threads, map_blocks)
    normalise_kernel(Columns t, bool relu, const T* x, const T* residual, T* y, Channels gamma,
                     Channels beta, const float* mean, const float* inverse_deviation,
                     const float* variance, float epsilon) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  float center[V], scale[V], shift[V];
  const auto prepare = [&] {
    float inverse[V];
    load<V>(gamma, channel, scale);
    load<V>(beta, channel, shift);
    const float* const spread = variance ? variance : inverse_deviation;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      center[v] = mean[channel + v];
      inverse[v] = spread[channel + v];
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      scale[v] *= variance ? 1 / sqrtf(inverse[v] + epsilon) : inverse[v];
    }
  };
  const float lowest = relu ? 0 : -INFINITY;
  struct Row {
    Unopened<T, V> x, residual;
  };
  const auto load_row = [&](const RowPlace& place) {
    Row loaded;
    loaded.x = load_unopened<V>(x, place.at);
    if (residual) loaded.residual = load_unopened<V>(residual, place.at);
    return loaded;
  };
  for_rows_upwards<V, 3>(t, load_row, prepare, [&](const RowPlace& place, const Row& loaded) {
    const auto in = open_pack<T, V>(loaded.x), added = open_pack<T, V>(loaded.residual);
    Pack<T, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float z = normalised(to_f32(in.at[v]), center[v], scale[v], shift[v]);
      if (residual) z += to_f32(added.at[v]);
      out.at[v] = from_f32<T>(z < lowest ? lowest : z);
    }
    store_pack<V>(y, place.at, out);
  });
}

template <class T, int V>
void statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                const BatchNorm& p, const Running& running) {
  const Columns t = sums_layout(context, g.rows, g.channels, V, resident);
  const Scratch partials(allocator, int64_t{t.chunks} * g.channels * int64_t{sizeof(float2)});
  launch_early(context, {t.tiles, t.chunks}, column_threads, statistics_kernel<T, V>, t,
               static_cast<float>(g.epsilon), static_cast<const T*>(p.x),
               Statistics{p.mean, p.inverse_deviation}, running, partials.as<float2>(),
               context.tickets());
  check_launch("batch_norm statistics");
}

template <class T, int V>
void normalise(Context& context, const BatchNormGeometry& g, const BatchNorm& p, bool training) {
  const Columns t = sums_layout(context, g.rows, g.channels, V, training ? resident : 1);
  launch_early(context, map_grid(t, map_blocks), block_threads, normalise_kernel<T, V>, t,
               g.activation.kind == Activation::relu, static_cast<const T*>(p.x),
               static_cast<const T*>(p.residual), static_cast<T*>(p.y), p.gamma, p.beta, p.mean,
               p.inverse_deviation, training ? nullptr : p.variance, static_cast<float>(g.epsilon));
}

}  // namespace

void batch_norm_statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                           const BatchNorm& p, const Running& running) {
  const auto run = [&]<class T, int V>() { statistics<T, V>(context, allocator, g, p, running); };
  with_packs(g.dtype, g.channels, run, p.x);
}

void batch_norm_train(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                      const BatchNorm& p, const Running& running) {
  const auto run = [&]<class T, int V>() {
    statistics<T, V>(context, allocator, g, p, running);
    normalise<T, V>(context, g, p, true);
  };
  with_packs(g.dtype, g.channels, run, p.x, p.residual, p.y);
  check_launch("batch_norm");
}

void batch_norm_inference(Context& context, const BatchNormGeometry& g, const BatchNorm& p) {
  with_packs(
      g.dtype, g.channels, [&]<class T, int V>() { normalise<T, V>(context, g, p, false); }, p.x,
      p.residual, p.y);
  check_launch("batch_norm");
}

}  // namespace whisker::cuda::kernels
