// Batch normalisation in two passes: the first reads and adds up, the second reads and writes. The
// second runs through the rows in reverse, since the L2 cache still holds the last ones. Statistics
// from known channel sums: one thread per channel.
#include "core/backend/fused_ops.h"
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
    statistics_kernel(ChannelLayout t, SumsMemory memory, float epsilon, const T* x, float* means,
                      float* inv_std, Running running) {
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
  const auto add = [&](int v, float& sum, float& squares, float value) {
    add_deviation(value - shift[v], sum, squares);
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
  sum_rows<T, V, rows_ahead>(t, memory, prepare, add, finish, x);
}

// p.y = f(z + residual); f is hard_swish, silu, or by default between a lowest and a highest value.
// Constant statistics have a variance, those of a batch p.inv_std.
template <class T, int V, Activation F>
__global__ void __launch_bounds__(block_threads, map_blocks)
    normalise_kernel(ChannelLayout t, float lowest, float highest, DeviceNorm p, const T* residual,
                     const float* variance, float epsilon) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  NormFactors<V> norm;
  const auto prepare = [&] {
    float inverse[V];
    load<V>(p.gamma, channel, norm.scale);
    load<V>(p.beta, channel, norm.shift);
    load(p.mean.as<float>(), channel, norm.center);
    load(variance ? variance : p.inv_std.as<float>(), channel, inverse);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      norm.scale[v] *= variance ? 1 / sqrtf(inverse[v] + epsilon) : inverse[v];
    }
  };
  const auto y = [&](int v, float x, float added) {
    float z = norm.z(v, x);
    if (residual) z += added;
    return F == Activation::none ? clipped(z, lowest, highest) : activate({F}, z);
  };
  map_rows<T, V, 4, Walk::reversed_once>(t, p.y.as<T>(), prepare, y, p.x.as<const T>(),
                                         IfGiven<T>{residual});
}

template <class T, int V>
void statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g, const T* x,
                const Tensor& mean, const Tensor& inv_std, const RunningStatistics& running) {
  launch_sums(context, allocator, sums_layout(context, g.rows, g.channels, V),
              statistics_kernel<T, V>, static_cast<float>(g.epsilon), x, f32(mean), f32(inv_std),
              running.map(f32_operand));
}

template <class T, int V>
void normalise(Context& context, const BatchNormGeometry& g, const DeviceNorm& p,
               const Operand& residual, const float* variance) {
  const Activation f = g.activation.kind;
  const auto launch = [&]<Activation F>() {
    launch_map<V>(context, sums_layout(context, g.rows, g.channels, V), map_blocks,
                  normalise_kernel<T, V, F>, f == Activation::none ? -INFINITY : 0,
                  f == Activation::relu6 ? 6 : INFINITY, p, residual.as<const T>(), variance,
                  static_cast<float>(g.epsilon));
  };
  if (f == Activation::hard_swish) return launch.template operator()<Activation::hard_swish>();
  if (f == Activation::silu) return launch.template operator()<Activation::silu>();
  launch.template operator()<Activation::none>();
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

DeviceNorm device_norm(const TrainingNorm& norm) {
  return device_norm(NormSaved{.x = norm.x,
                               .gamma = norm.gamma,
                               .beta = norm.beta,
                               .mean = norm.mean,
                               .inv_std = norm.inv_std});
}

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
}

void Normalization::batch_norm_train(const BatchNormGeometry& g, const NormInputs& in,
                                     const NormOutputs& out, const RunningStatistics& running) {
  context_.enter();
  const DeviceNorm p = device_norm(in, out);
  const Operand residual = operand(in.residual);
  const auto run = [&]<class T, int V>() {
    statistics<T, V>(context_, allocator_, g, p.x.as<const T>(), out.mean, out.inv_std, running);
    normalise<T, V>(context_, g, p, residual, nullptr);
  };
  with_packs(g.dtype, g.channels, run, p.x.data, residual.data, p.y.data);
}

void Normalization::batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                                         const KnownStatistics& statistics, const Tensor& y) {
  context_.enter();
  const DeviceNorm p = device_norm(in, {.y = y, .mean = statistics.mean, .inv_std = no_tensor});
  const Operand residual = operand(in.residual);
  const auto run = [&]<class T, int V>() {
    normalise<T, V>(context_, g, p, residual, f32(statistics.variance));
  };
  with_packs(g.dtype, g.channels, run, p.x.data, residual.data, p.y.data);
}

std::shared_ptr<NormalizationKernels> make_normalization(CudaDevice& device) {
  return std::make_shared<Normalization>(device);
}

}  // namespace whisker::cuda
