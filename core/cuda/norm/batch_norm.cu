// Batch normalisation in two passes: the first reads and adds up, the second reads and writes. The
// second runs through the rows in reverse, since the L2 cache still holds the last ones. Statistics
// from known channel sums: one thread per channel.
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"

namespace whisker::cuda {
namespace {

// Rows that the first pass loads ahead, 64 KiB per multiprocessor: with half of that, both passes
// over 411 MB took an H200 407 us instead of 334.
constexpr int rows_ahead = 8;
constexpr int map_blocks = 3;  // of the second pass, per multiprocessor

using Running = BasicRunningStatistics<Operand>;

/// The pending running statistics of channel c, from those before and the batch's.
__device__ void store_running(const Running& running, int64_t c, float mean, float batch_mean,
                              float variance, float batch_variance) {
  const auto kept = static_cast<float>(1 - running.momentum);
  const auto added = static_cast<float>(running.momentum);
  running.pending_mean.as<float>()[c] = kept * mean + added * batch_mean;
  running.pending_variance.as<float>()[c] = kept * variance + added * batch_variance;
}

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
    statistics_kernel(ChannelLayout t, float epsilon, const T* x, float* means, float* inv_std,
                      Running running, float2* partials, uint32_t* tickets) {
  wait_for_previous();
  __shared__ float tile_shift[tile_channels];
  const int64_t channel = own_channel<V>(t), summed = summed_channel<V>(t);
  float running_mean = 0, running_variance = 0;  // read early: the last block need not wait
  if (running.mean.data && summed < t.channels) {
    running_mean = running.mean.as<float>()[summed];
    running_variance = running.variance.as<float>()[summed];
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
    means[c] = mean;
    inv_std[c] = 1 / sqrtf(spread / rows + epsilon);
    if (!running.mean.data) return;
    const float variance = spread / fmaxf(rows - 1, 1.0f);
    store_running(running, c, running_mean, mean, running_variance, variance);
  };
  two_channel_sums<V, rows_ahead>(t, partials, tickets, load, prepare, add, finish);
}

/// clip is none, relu and relu6: between a lowest and a highest value.
enum class Curve { clip, hard_swish, silu };

// p.y = f(z + residual). Constant statistics have a variance, those of a batch p.inv_std.
template <class T, int V, Curve F>
__global__ void __launch_bounds__(block_threads, map_blocks)
    normalise_kernel(ChannelLayout t, float lowest, float highest, DeviceNorm p, const T* residual,
                     const float* variance, float epsilon) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  float center[V], scale[V], shift[V];
  const auto prepare = [&] {
    float inverse[V];
    load<V>(p.gamma, channel, scale);
    load<V>(p.beta, channel, shift);
    load(p.mean.as<const float>(), channel, center);
    load(variance ? variance : p.inv_std.as<const float>(), channel, inverse);
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
    loaded.x = load_pack_bytes_once<V>(p.x.as<const T>(), position.at);
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
    store_pack<V>(p.y.as<T>(), position.at, rounded<T>(out));
  };
  for_rows_reversed<V, 4>(t, load_row, prepare, use);
}

template <class T, int V>
void statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g, const T* x,
                const Tensor& mean, const Tensor& inv_std, const RunningStatistics& running) {
  const ChannelLayout t = sums_layout(context, g.rows, g.channels, V);
  const Scratch partials(allocator, int64_t{t.chunks} * g.channels * int64_t{sizeof(float2)});
  launch_pdl(context, t.grid(), t.threads(), statistics_kernel<T, V>, t,
             static_cast<float>(g.epsilon), x, f32(mean), f32(inv_std), running.map(f32_operand),
             partials.as<float2>(), context.tickets());
  check_launch("batch_norm statistics");
}

template <class T, int V>
void normalise(Context& context, const BatchNormGeometry& g, const DeviceNorm& p,
               const Operand& residual, const float* variance) {
  const ChannelLayout sums = sums_layout(context, g.rows, g.channels, V);
  const ChannelLayout t = map_layout(context, sums, V, map_blocks);
  const Activation f = g.activation.kind;
  const auto launch = [&]<Curve F>() {
    launch_pdl(context, t.grid(), t.threads(), normalise_kernel<T, V, F>, t,
               f == Activation::none ? -INFINITY : 0, f == Activation::relu6 ? 6 : INFINITY, p,
               residual.as<const T>(), variance, static_cast<float>(g.epsilon));
  };
  if (f == Activation::hard_swish) return launch.template operator()<Curve::hard_swish>();
  if (f == Activation::silu) return launch.template operator()<Curve::silu>();
  launch.template operator()<Curve::clip>();
}

// A spread below zero by rounding becomes zero; NaN stays.
__global__ void __launch_bounds__(block_threads)
    statistics_of_sums_kernel(int64_t channels, int64_t rows, float epsilon, const float* sums,
                              float* means, float* inv_std, float* variances, Running running) {
  wait_for_previous();
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (c >= channels) return;
  const auto count = static_cast<double>(rows);
  const double offset = sums[c] / count;
  const double mean = sums[2 * channels + c] + offset;
  double spread = sums[channels + c] - sums[c] * offset;
  if (spread < 0) spread = 0;
  const auto variance = static_cast<float>(spread / count);
  means[c] = static_cast<float>(mean);
  if (variances) variances[c] = variance;
  inv_std[c] = 1 / sqrtf(variance + epsilon);
  if (!running.mean.data) return;
  const auto unbiased = static_cast<float>(spread / (count > 1 ? count - 1 : 1));
  store_running(running, c, running.mean.as<float>()[c], static_cast<float>(mean),
                running.variance.as<float>()[c], unbiased);
}

}  // namespace

void kernels::batch_norm_statistics(Context& context, Allocator& allocator,
                                    const TrainingNorm& norm) {
  const BatchNormGeometry& g = norm.geometry;
  if (!norm.sums.defined()) {
    const void* const x = norm.x.raw();
    const auto run = [&]<class T, int V>() {
      statistics<T, V>(context, allocator, g, static_cast<const T*>(x), norm.mean, norm.inv_std,
                       norm.running);
    };
    return with_packs(g.dtype, g.channels, run, x);
  }
  launch_pdl(context, blocks_of(g.channels), block_threads, statistics_of_sums_kernel, g.channels,
             g.rows, static_cast<float>(g.epsilon), f32(norm.sums), f32(norm.mean),
             f32(norm.inv_std), f32(norm.variance), norm.running.map(f32_operand));
  check_launch("statistics of sums");
}

void Normalization::batch_norm_train(const BatchNormGeometry& g, const NormInputs& in,
                                     const NormOutputs& out, const RunningStatistics& running) {
  context_.enter();
  const DeviceNorm p = device_norm({.x = in.x,
                                    .gamma = in.gamma,
                                    .beta = in.beta,
                                    .y = out.y,
                                    .mean = out.mean,
                                    .inv_std = out.inv_std});
  const Operand residual = operand(in.residual);
  const auto run = [&]<class T, int V>() {
    statistics<T, V>(context_, allocator_, g, p.x.as<const T>(), out.mean, out.inv_std, running);
    normalise<T, V>(context_, g, p, residual, nullptr);
  };
  with_packs(g.dtype, g.channels, run, p.x.data, residual.data, p.y.data);
  check_launch("batch_norm");
}

void Normalization::batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                                         const KnownStatistics& statistics, const Tensor& y) {
  context_.enter();
  const DeviceNorm p = device_norm({.x = in.x,
                                    .gamma = in.gamma,
                                    .beta = in.beta,
                                    .y = y,
                                    .mean = statistics.mean,
                                    .inv_std = no_tensor});
  const Operand residual = operand(in.residual);
  const auto run = [&]<class T, int V>() {
    normalise<T, V>(context_, g, p, residual, f32(statistics.variance));
  };
  with_packs(g.dtype, g.channels, run, p.x.data, residual.data, p.y.data);
  check_launch("batch_norm");
}

std::shared_ptr<NormalizationKernels> make_normalization(CudaDevice& device) {
  return std::make_shared<Normalization>(device);
}

}  // namespace whisker::cuda
