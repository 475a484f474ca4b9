// Two batch norms, fused. Forward: one pass reads both tensors and writes the sum. Backward: the
// first pass computes the sums of both norms and stores dz = f'(y) dy in the memory of the second's
// dx; the second pass computes both dx from it, in reverse, since the L2 cache still holds the last
// rows.
#include "core/backend/fused_ops.h"
#include "core/cuda/device_code/many_channel_sums.cuh"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/norm/row_pass.cuh"

#include <algorithm>

namespace whisker::cuda {
namespace {

/// Blocks of the passes that write, per multiprocessor.
constexpr int result_blocks = 3, gradient_blocks = 2;

/// Both norms of a thread's channels as x scale + added scale' + shift. Forward and backward
/// compute this one expression, so that both find the same sign of z.
template <int V>
struct SummedNorms {
  float scale[V] = {}, other_scale[V] = {}, shift[V] = {};

  SummedNorms() = default;
  __device__ SummedNorms(const DeviceNorm& first, const DeviceNorm& second, int64_t channel) {
    float other_shift[V];
    line_of(first, channel, scale, shift);
    line_of(second, channel, other_scale, other_shift);
#pragma unroll
    for (int v = 0; v < V; ++v) shift[v] += other_shift[v];
  }
  __device__ float z(int v, float x, float added) const {
    return two_terms(x, scale[v], added, other_scale[v], shift[v]);
  }

 private:
  /// One norm as x scale + shift. Loads of four numbers would spill 18 registers in 16 bits.
  __device__ static void line_of(const DeviceNorm& norm, int64_t channel, float (&scale)[V],
                                 float (&shift)[V]) {
    float inverse[V], mean[V];
    load<V>(norm.gamma, channel, scale);
    load<V>(norm.beta, channel, shift);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      inverse[v] = norm.inv_std.as<float>()[channel + v];
      mean[v] = norm.mean.as<float>()[channel + v];
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
    add_norms_kernel(ChannelLayout t, bool relu, DeviceNorm first, DeviceNorm second, T* y) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  SummedNorms<V> norms;
  const auto prepare = [&] { norms = SummedNorms<V>(first, second, channel); };
  const auto result = [&](int v, float x, float added) {
    const float z = norms.z(v, x, added);
    return relu && z < 0 ? 0 : z;
  };
  map_rows<T, V, 3, Walk::reversed>(t, y, prepare, result, first.x.as<const T>(),
                                    second.x.as<const T>());
}

// sums (packs, 3, V): sum(dz), sum(dz (x - mean)) and the latter of the second norm. dz (rows,
// channels), unless null, is written too, rounded once for all readers.
template <class T, int V>
__global__ void __launch_bounds__(block_threads, 3)
    add_norms_sums_kernel(ChannelSums<float> g, bool relu, DeviceNorm first, DeviceNorm second,
                          DeviceUnsummedGrads grads, T* dz) {
  wait_for_previous();
  const auto* x = first.x.as<const T>();
  const auto* added = second.x.as<const T>();
  const auto* dy = grads.first.as<const T>();
  const auto* more = grads.second.as<const T>();
  const int64_t own = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
  float sum[3 * V] = {};
  if (own < g.packs * V) {
    SummedNorms<V> norms;
    float center[V], other_center[V];
    const auto prepare = [&] {
      load(first.mean.as<float>(), own, center);
      load(second.mean.as<float>(), own, other_center);
      norms = SummedNorms<V>(first, second, own);
    };
    const auto load_row = [&](const RowPosition& position) {
      return load_packs<T, V>(position.at, dy, IfGiven<T>{more}, x, added);
    };
    const auto use = [&](const RowPosition& position, const RowPacks<T, V, 4>& in) {
      float d[V];
      in.for_each([&](int v, float own_dy, float term, float one, float other) {
        const T y = from_f32<T>(norms.z(v, one, other));
        d[v] = more ? to_f32(from_f32<T>(own_dy + term)) : own_dy;
        if (relu && to_f32(y) <= 0) d[v] = 0;
        sum[v] += d[v];
        sum[V + v] = fmaf(d[v], one - center[v], sum[V + v]);
        sum[2 * V + v] = fmaf(d[v], other - other_center[v], sum[2 * V + v]);
      });
      if (dz) store_pack<V>(dz, position.at, rounded<T>(d));
    };
    const ChannelLayout t{.rows = g.rows, .channels = g.packs * V};
    const auto [begin, end] = block_rows(g);
    const int64_t row = begin + threadIdx.y;
    const auto left = static_cast<int>(end - row);
    for_rows<2>(t, {row, row * t.channels + own}, static_cast<int>(blockDim.y), left, load_row,
                prepare, use);
  }
  add_blocks(g, sum);
}

/// dx = scale dz + slope x + offset, per channel.
template <int V>
struct InputGradient {
  float scale[V], slope[V], offset[V];

  InputGradient() = default;
  /// sums (packs, 3, V), of which those of the norm are number `of_norm`; the gradients of gamma
  /// and beta are stored by one thread of the channels.
  __device__ InputGradient(const DeviceNorm& norm, const DeviceNormGrads& out, int64_t channel,
                           float rows, const float* sums, int of_norm, bool stores) {
    float inverse[V], mean[V], sum[V], correlation[V];
    load<V>(norm.gamma, channel, scale);
    load(norm.inv_std.as<float>(), channel, inverse);
    load(norm.mean.as<float>(), channel, mean);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sum[v] = sums[channel * 3 + v];
      correlation[v] = sums[channel * 3 + of_norm * V + v];
      scale[v] *= inverse[v];
      const ThroughStatistics through(scale[v], inverse[v], sum[v], correlation[v], rows);
      slope[v] = through.slope;
      offset[v] = fmaf(-mean[v], through.slope, through.shift);
    }
    if (!stores) return;
#pragma unroll
    for (int v = 0; v < V; ++v)
      store_parameters(out, channel + v, sum[v], correlation[v] * inverse[v]);
  }
  __device__ float dx(int v, float dz, float x) const {
    return two_terms(dz, scale[v], x, slope[v], offset[v]);
  }
};

// Both dx from dz, one of them in place; and the gradients of gamma and beta from the sums.
template <class T, int V>
__global__ void __launch_bounds__(block_threads, gradient_blocks)
    add_norms_gradients_kernel(ChannelLayout t, DeviceNorm first, DeviceNorm second,
                               const float* sums, const T* dz, DeviceNormGrads of_first,
                               DeviceNormGrads of_second) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  InputGradient<V> gradient, other;
  const auto prepare = [&] {
    const auto rows = static_cast<float>(t.rows);
    const bool stores =
        blockIdx.y + blockIdx.z == 0 && threadIdx.x < static_cast<unsigned>(t.width);
    gradient = InputGradient<V>(first, of_first, channel, rows, sums, 1, stores);
    other = InputGradient<V>(second, of_second, channel, rows, sums, 2, stores);
  };
  if (!dz) return prepare();
  auto* const dx = of_first.dx.as<T>();
  auto* const dadded = of_second.dx.as<T>();
  const auto load_row = [&](const RowPosition& position) {
    return load_packs<T, V>(position.at, dz, first.x.as<const T>(), second.x.as<const T>());
  };
  const auto use = [&](const RowPosition& position, const RowPacks<T, V, 3>& row) {
    float one[V], two[V];
    row.for_each([&](int v, float d, float x, float added) {
      one[v] = gradient.dx(v, d, x);
      two[v] = other.dx(v, d, added);
    });
    if (dx) store_pack<V>(dx, position.at, rounded<T>(one));
    if (dadded) store_pack<V>(dadded, position.at, rounded<T>(two));
  };
  for_rows_reversed<V, 6>(t, load_row, prepare, use);
}

class AddNorms final : public FusedAddNorms, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void normalise(const TrainingNorm& first, const TrainingNorm& second, const Tensor& y) override {
    context_.enter();
    kernels::batch_norm_statistics(context_, allocator_, second);
    kernels::batch_norm_statistics(context_, allocator_, first);
    const BatchNormGeometry& g = first.geometry;
    const auto run = [&]<class T, int V>() {
      launch_map<V>("add_batch_norms", context_, sums_layout(context_, g.rows, g.channels, V),
                    result_blocks, add_norms_kernel<T, V>, g.activation.kind == Activation::relu,
                    device_norm(first), device_norm(second), static_cast<T*>(y.raw()));
    };
    with_packs(g.dtype, g.channels, run, first.x.raw(), second.x.raw(), y.raw());
  }

  void backward(const TrainingNorm& first, const TrainingNorm& second, const UnsummedGrads& dy,
                const AddNormsGradients& gradients) override {
    context_.enter();
    const BatchNormGeometry& g = first.geometry;
    const DeviceNorm one = device_norm(first), other = device_norm(second);
    const DeviceUnsummedGrads grads = dy.map(operand);
    const DeviceNormGrads of_one = gradients.first.map(operand);
    const DeviceNormGrads of_other = gradients.second.map(operand);
    const auto run = [&]<class T, int pack>() {
      constexpr int V = half_pack(pack);
      auto* const dz = (of_other.dx.data ? of_other : of_one).dx.as<T>();
      const int64_t packs = g.channels / V;
      constexpr unsigned cache_line = 128 / (sizeof(T) * V);  // in packs
      const ChannelSumsLaunch launch = channel_sums_launch(
          g.rows, packs, 3 * V, context_.multiprocessors(), std::min(cache_line, 32u));
      const Scratch memory(allocator_, 3 * g.channels * int64_t{sizeof(float)} + launch.sums_bytes);
      auto* const sums = memory.as<float>();
      const ChannelSums<float> channel_sums{
          .rows = g.rows,
          .packs = packs,
          .sums = launch.sums_bytes > 0 ? sums + 3 * g.channels : nullptr,
          .result = sums,
          .tickets = context_.tickets()};
      launch_pdl({.stream = context_.stream(),
                  .capability = context_.capability(),
                  .shared_bytes = launch.shared_bytes},
                 launch.grid, launch.block, add_norms_sums_kernel<T, V>, channel_sums,
                 g.activation.kind == Activation::relu, one, other, grads, dz);
      check_launch("add_norms_backward sums");
      const ChannelLayout t =
          map_layout(context_, sums_layout(context_, g.rows, g.channels, V), V, gradient_blocks);
      const dim3 parameters_only{t.tiles};
      launch_pdl(context_, dz ? t.grid() : parameters_only, t.threads(),
                 add_norms_gradients_kernel<T, V>, t, one, other, sums, dz, of_one, of_other);
      check_launch("add_norms_backward");
    };
    with_packs(g.dtype, g.channels, run, one.x.data, other.x.data, grads.first.data,
               grads.second.data, of_one.dx.data, of_other.dx.data);
  }
};

}  // namespace

std::shared_ptr<FusedAddNorms> make_fused_add_norms(CudaDevice& device) {
  return std::make_shared<AddNorms>(device);
}

}  // namespace whisker::cuda
