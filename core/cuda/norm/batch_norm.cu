// Batch normalisation in two passes: the first reads and adds up, the second reads and writes. The
// second runs through the rows in reverse, since the L2 cache still holds the last ones. Statistics
// from known channel sums: one thread per channel.
#include "core/cuda/norm/batch_norm.cuh"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda::kernels {
namespace {

// Rows that the first pass loads ahead, 64 KiB per multiprocessor: with half of that, both passes
// over 411 MB took an H200 407 us instead of 334.
constexpr int rows_ahead = 8;
constexpr int map_blocks = 3;  // of the second pass, per multiprocessor

/// Results of the first pass: f32 (channels).
struct Statistics {
  float* mean;
  float* inv_std;
};

// Sums are of deviations from a value near the mean, against cancellation: the average of four rows
// (Chan, Golub and LeVeque 1983, "shifted data").
template <int V, class T>
__device__ void load_shift(const T* x, const ChannelLayout& t, int64_t channel, float (&shift)[V]) {
  PackBytes<T, V> rows[4];
  const int64_t quarter = t.rows / 4 * t.channels;
#pragma unroll
  for (int i = 0; i < 4; ++i) rows[i] = load_pack_bytes<V>(x, i * quarter + channel);
#pragma unroll
  for (int v = 0; v < V; ++v) shift[v] = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float row[V];
    to_floats<T>(rows[i], row);
#pragma unroll
    for (int v = 0; v < V; ++v) shift[v] += 0.25f * row[v];
  }
}

template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads, 1)
    statistics_kernel(ChannelLayout t, float epsilon, const T* x, Statistics out, Running running,
                      float2* partials, uint32_t* tickets) {
  wait_for_previous();
  __shared__ float tile_shift[tile_channels];
  const int64_t channel = own_channel<V>(t), summed = summed_channel<V>(t);
  float running_mean = 0, running_variance = 0;  // read early: the last block need not wait
  if (running.mean && summed < t.channels) {
    running_mean = running.mean[summed];
    running_variance = running.variance[summed];
  }
  float shift[V];
  const auto prepare = [&] {
    load_shift<V>(x, t, channel, shift);
    if (threadIdx.x >= static_cast<unsigned>(t.width)) return;
#pragma unroll
    for (unsigned v = 0; v < V; ++v) tile_shift[threadIdx.x * V + v] = shift[v];
  };
  const auto load = [&](const RowPosition& position) { return load_pack_bytes<V>(x, position.at); };
  const auto add = [&](const RowPosition&, const PackBytes<T, V>& loaded, float(&sum)[V],
                       float(&squares)[V]) {
    float in[V];
    to_floats<T>(loaded, in);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float deviation = in[v] - shift[v];
      sum[v] += deviation;
      squares[v] = fmaf(deviation, deviation, squares[v]);
    }
  };
  const auto finish = [&](int64_t c, float sum, float squares) {
    const auto rows = static_cast<float>(t.rows);
    const float offset = sum / rows;
    float spread = squares - sum * offset;
    if (spread < 0) spread = 0;  // by rounding; keeps NaN
    const float mean = tile_shift[threadIdx.x] + offset;
    out.mean[c] = mean;
    out.inv_std[c] = 1 / sqrtf(spread / rows + epsilon);
    if (!running.mean) return;
    const float variance = spread / fmaxf(rows - 1, 1.0f);
    running.pending_mean[c] = running.kept * running_mean + running.added * mean;
    running.pending_variance[c] = running.kept * running_variance + running.added * variance;
  };
  two_channel_sums<V, rows_ahead>(t, partials, tickets, load, prepare, add, finish);
}

/// clip is none, relu and relu6: between a lowest and a highest value.
enum class Curve { clip, hard_swish, silu };

// y = f(z + residual). Constant statistics have a variance, those of a batch `inv_std`.
template <class T, int V, Curve F>
__global__ void __launch_bounds__(block_threads, map_blocks)
    normalise_kernel(ChannelLayout t, float lowest, float highest, const T* x, const T* residual,
                     T* y, Channels gamma, Channels beta, const float* mean, const float* inv_std,
                     const float* variance, float epsilon) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  float center[V], scale[V], shift[V];
  const auto prepare = [&] {
    float inverse[V];
    load<V>(gamma, channel, scale);
    load<V>(beta, channel, shift);
    const float* const spread = variance ? variance : inv_std;
    load(mean, channel, center);
    load(spread, channel, inverse);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      scale[v] *= variance ? 1 / sqrtf(inverse[v] + epsilon) : inverse[v];
    }
  };
  struct Row {
    PackBytes<T, V> x, residual;
  };
  const auto load_row = [&](const RowPosition& position) {
    Row loaded;
    loaded.x = load_pack_bytes_once<V>(x, position.at);
    if (residual) loaded.residual = load_pack_bytes_once<V>(residual, position.at);
    return loaded;
  };
  const auto use = [&](const RowPosition& position, const Row& loaded) {
    float in[V], added[V], out[V];
    to_floats<T>(loaded.x, in);
    to_floats<T>(loaded.residual, added);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float z = normalised(in[v], center[v], scale[v], shift[v]);
      if (residual) z += added[v];
      if constexpr (F == Curve::clip) z = clipped(z, lowest, highest);
      if constexpr (F == Curve::hard_swish) z = activate({Activation::hard_swish}, z);
      if constexpr (F == Curve::silu) z = activate({Activation::silu}, z);
      out[v] = z;
    }
    store_pack<V>(y, position.at, rounded<T>(out));
  };
  for_rows_reversed<V, 4>(t, load_row, prepare, use);
}

template <class T, int V>
void statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                const BatchNorm& p, const Running& running) {
  const ChannelLayout t = sums_layout(context, g.rows, g.channels, V);
  const Scratch partials(allocator, int64_t{t.chunks} * g.channels * int64_t{sizeof(float2)});
  launch_pdl(context, t.grid(), t.threads(), statistics_kernel<T, V>, t,
             static_cast<float>(g.epsilon), static_cast<const T*>(p.x),
             Statistics{p.mean, p.inv_std}, running, partials.as<float2>(), context.tickets());
  check_launch("batch_norm statistics");
}

template <class T, int V>
void normalise(Context& context, const BatchNormGeometry& g, const BatchNorm& p, bool training) {
  const ChannelLayout sums = sums_layout(context, g.rows, g.channels, V);
  const ChannelLayout t = map_layout(context, sums, V, map_blocks);
  const Activation f = g.activation.kind;
  const auto launch = [&]<Curve F>() {
    launch_pdl(context, t.grid(), t.threads(), normalise_kernel<T, V, F>, t,
               f == Activation::none ? -INFINITY : 0, f == Activation::relu6 ? 6 : INFINITY,
               static_cast<const T*>(p.x), static_cast<const T*>(p.residual), static_cast<T*>(p.y),
               p.gamma, p.beta, p.mean, p.inv_std, training ? nullptr : p.variance,
               static_cast<float>(g.epsilon));
  };
  if (f == Activation::hard_swish) return launch.template operator()<Curve::hard_swish>();
  if (f == Activation::silu) return launch.template operator()<Curve::silu>();
  launch.template operator()<Curve::clip>();
}

// A spread below zero by rounding becomes zero; NaN stays.
__global__ void __launch_bounds__(block_threads)
    statistics_of_sums_kernel(int64_t channels, int64_t rows, float epsilon, BatchNorm p,
                              Running running) {
  wait_for_previous();
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (c >= channels) return;
  const auto count = static_cast<double>(rows);
  const double offset = p.sums[c] / count;
  const double mean = p.sums[2 * channels + c] + offset;
  double spread = p.sums[channels + c] - p.sums[c] * offset;
  if (spread < 0) spread = 0;
  const auto variance = static_cast<float>(spread / count);
  p.mean[c] = static_cast<float>(mean);
  if (p.variance) p.variance[c] = variance;
  p.inv_std[c] = 1 / sqrtf(variance + epsilon);
  if (!running.mean) return;
  const auto unbiased = static_cast<float>(spread / (count > 1 ? count - 1 : 1));
  running.pending_mean[c] =
      running.kept * running.mean[c] + running.added * static_cast<float>(mean);
  running.pending_variance[c] = running.kept * running.variance[c] + running.added * unbiased;
}

}  // namespace

void batch_norm_statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                           const BatchNorm& p, const Running& running) {
  if (!p.sums) {
    const auto run = [&]<class T, int V>() { statistics<T, V>(context, allocator, g, p, running); };
    return with_packs(g.dtype, g.channels, run, p.x);
  }
  launch_pdl(context, blocks_of(g.channels), block_threads, statistics_of_sums_kernel, g.channels,
             g.rows, static_cast<float>(g.epsilon), p, running);
  check_launch("statistics of sums");
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
