// Two batch norms, fused. Forward: one pass reads both tensors and writes the sum. Backward: the
// first pass computes the sums of both norms and stores dz = f'(y) dy in the memory of the second's
// dx; the second pass computes both dx from it, in reverse, since the L2 cache still holds the last
// rows.
#include "core/cuda/device_code/many_channel_sums.cuh"
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"

#include <algorithm>

namespace whisker::cuda {
namespace {

/// Blocks of the passes that write, per multiprocessor.
constexpr int result_blocks = 3, gradient_blocks = 2;

/// A thread's packs of a row of both tensors.
template <class T, int V>
struct TwoPacks {
  PackBytes<T, V> first, second;
};

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
  __device__ float at(int v, float x, float added) const {
    return fmaf(x, scale[v], fmaf(added, other_scale[v], shift[v]));
  }

 private:
  /// One norm as x scale + shift.
  __device__ static void line_of(const DeviceNorm& norm, int64_t channel, float (&scale)[V],
                                 float (&shift)[V]) {
    float inverse[V], mean[V];
    load<V>(norm.gamma, channel, scale);
    load<V>(norm.beta, channel, shift);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      inverse[v] = norm.inv_std.as<const float>()[channel + v];
      mean[v] = norm.mean.as<const float>()[channel + v];
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
  if (channel >= t.channels) return;
  SummedNorms<V> norms;
  const auto* x = first.x.as<const T>();
  const auto* added = second.x.as<const T>();
  for_rows_reversed<V, 3>(
      t,
      [&](const RowPosition& position) {
        return TwoPacks<T, V>{load_pack_bytes<V>(x, position.at),
                              load_pack_bytes<V>(added, position.at)};
      },
      [&] { norms = SummedNorms<V>(first, second, channel); },
      [&](const RowPosition& position, const TwoPacks<T, V>& in) {
        float own[V], other[V], z[V];
        to_floats<T>(in.first, own);
        to_floats<T>(in.second, other);
#pragma unroll
        for (int v = 0; v < V; ++v) {
          z[v] = norms.at(v, own[v], other[v]);
          if (relu) z[v] = z[v] < 0 ? 0 : z[v];
        }
        store_pack<V>(y, position.at, rounded<T>(z));
      });
}

/// A thread's packs of a row in the first pass of backward; `more` unless null.
template <class T, int V>
struct GradientPacks {
  PackBytes<T, V> dy, more, x, added;
};

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
#pragma unroll
      for (int v = 0; v < V; ++v) {
        center[v] = first.mean.as<const float>()[own + v];
        other_center[v] = second.mean.as<const float>()[own + v];
      }
      norms = SummedNorms<V>(first, second, own);
    };
    const auto load_row = [&](const RowPosition& position) {
      GradientPacks<T, V> in;
      in.dy = load_pack_bytes<V>(dy, position.at);
      if (more) in.more = load_pack_bytes<V>(more, position.at);
      in.x = load_pack_bytes<V>(x, position.at);
      in.added = load_pack_bytes<V>(added, position.at);
      return in;
    };
    const auto use = [&](const RowPosition& position, const GradientPacks<T, V>& in) {
      float d[V], term[V], one[V], other[V];
      to_floats<T>(in.dy, d);
      to_floats<T>(in.more, term);
      to_floats<T>(in.x, one);
      to_floats<T>(in.added, other);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const T y = from_f32<T>(norms.at(v, one[v], other[v]));
        if (more) d[v] = to_f32(from_f32<T>(d[v] + term[v]));
        if (relu && to_f32(y) <= 0) d[v] = 0;
        sum[v] += d[v];
        sum[V + v] = fmaf(d[v], one[v] - center[v], sum[V + v]);
        sum[2 * V + v] = fmaf(d[v], other[v] - other_center[v], sum[2 * V + v]);
      }
      if (dz) store_pack<V>(dz, position.at, rounded<T>(d));
    };
    const ChannelLayout t{.rows = g.rows, .channels = g.packs * V};
    const auto [begin, end] = block_rows(g);
    const int64_t row = begin + threadIdx.y;
    const auto down = static_cast<int>(blockDim.y);
    const auto left = static_cast<int>(end - row);
    for_rows<2>(t, {row, row * t.channels + own}, down, left, load_row, prepare, use);
  }
  add_blocks(g, sum);
}

/// dx = dz of_dz + x of_x + offset, per channel.
template <int V>
struct InputGradient {
  float of_dz[V], of_x[V], offset[V];

  InputGradient() = default;
  __device__ InputGradient(const DeviceNorm& norm, int64_t channel, float rows, const float* sum,
                           const float* correlation) {
    load<V>(norm.gamma, channel, of_dz);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float inverse = norm.inv_std.as<const float>()[channel + v];
      of_dz[v] *= inverse;
      of_x[v] = -of_dz[v] * inverse * inverse * correlation[v] / rows;
      offset[v] =
          fmaf(-norm.mean.as<const float>()[channel + v], of_x[v], -of_dz[v] * sum[v] / rows);
    }
  }
  template <class T>
  __device__ Pack<T, V> of(const float (&dz)[V], const PackBytes<T, V>& x) const {
    float dx[V];
    to_floats<T>(x, dx);
#pragma unroll
    for (int v = 0; v < V; ++v) dx[v] = fmaf(dz[v], of_dz[v], fmaf(dx[v], of_x[v], offset[v]));
    return rounded<T>(dx);
  }
};

template <int V>
__device__ void store_parameter_gradients(const DeviceNorm& norm, const DeviceNormGrads& out,
                                          int64_t channel, const float* sum,
                                          const float* correlation) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int64_t c = channel + v;
    if (out.dbeta.data) store(out.dbeta, c, sum[v]);
    if (out.dgamma.data) store(out.dgamma, c, correlation[v] * norm.inv_std.as<const float>()[c]);
  }
}

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
      store_parameter_gradients<V>(first, of_first, channel, sum, correlation);
      store_parameter_gradients<V>(second, of_second, channel, sum, other_correlation);
    }
  };
  if (!dz) return prepare();
  const auto* x = first.x.as<const T>();
  const auto* added = second.x.as<const T>();
  auto* dx = of_first.dx.as<T>();
  auto* dadded = of_second.dx.as<T>();
  struct Loaded {
    PackBytes<T, V> dz;
    TwoPacks<T, V> in;
  };
  for_rows_reversed<V, 6>(
      t,
      [&](const RowPosition& position) {
        return Loaded{load_pack_bytes<V>(dz, position.at),
                      {load_pack_bytes<V>(x, position.at), load_pack_bytes<V>(added, position.at)}};
      },
      prepare,
      [&](const RowPosition& position, const Loaded& row) {
        float d[V];
        to_floats<T>(row.dz, d);
        if (dx) store_pack<V>(dx, position.at, gradient.template of<T>(d, row.in.first));
        if (dadded) store_pack<V>(dadded, position.at, other.template of<T>(d, row.in.second));
      });
}

template <class T, int V>
void backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
              const DeviceNorm& first, const DeviceNorm& second, const DeviceUnsummedGrads& dy,
              const DeviceNormGrads& of_first, const DeviceNormGrads& of_second) {
  auto* const dz = (of_second.dx.data ? of_second : of_first).dx.as<T>();
  const int64_t packs = g.channels / V;
  constexpr unsigned cache_line = 128 / (sizeof(T) * V);  // in packs
  const ChannelSumsLaunch launch = channel_sums_launch(
      g.rows, packs, 3 * V, context.multiprocessors(), std::min(cache_line, 32u));
  const Scratch memory(allocator, 3 * g.channels * int64_t{sizeof(float)} + launch.sums_bytes);
  auto* const sums = memory.as<float>();
  const ChannelSums<float> channel_sums{
      .rows = g.rows,
      .packs = packs,
      .sums = launch.sums_bytes > 0 ? sums + 3 * g.channels : nullptr,
      .result = sums,
      .tickets = context.tickets()};
  launch_pdl({.stream = context.stream(),
              .capability = context.capability(),
              .shared_bytes = launch.shared_bytes},
             launch.grid, launch.block, add_norms_sums_kernel<T, V>, channel_sums,
             g.activation.kind == Activation::relu, first, second, dy, dz);
  check_launch("add_norms_backward sums");
  const ChannelLayout t =
      map_layout(context, sums_layout(context, g.rows, g.channels, V), V, gradient_blocks);
  const dim3 parameters_only{t.tiles};
  launch_pdl(context, dz ? t.grid() : parameters_only, t.threads(),
             add_norms_gradients_kernel<T, V>, t, first, second, sums, dz, of_first, of_second);
  check_launch("add_norms_backward");
}

}  // namespace

void AddNorms::normalise(const TrainingNorm& first, const TrainingNorm& second, const Tensor& y) {
  context_.enter();
  kernels::batch_norm_statistics(context_, allocator_, second);
  kernels::batch_norm_statistics(context_, allocator_, first);
  const BatchNormGeometry& g = first.geometry;
  const auto run = [&]<class T, int V>() {
    const ChannelLayout t =
        map_layout(context_, sums_layout(context_, g.rows, g.channels, V), V, result_blocks);
    launch_pdl(context_, t.grid(), t.threads(), add_norms_kernel<T, V>, t,
               g.activation.kind == Activation::relu, device_norm(first), device_norm(second),
               static_cast<T*>(y.raw()));
  };
  with_packs(g.dtype, g.channels, run, first.x.raw(), second.x.raw(), y.raw());
  check_launch("add_batch_norms");
}

void AddNorms::backward(const TrainingNorm& first, const TrainingNorm& second,
                        const UnsummedGrads& dy, const AddNormsGradients& gradients) {
  context_.enter();
  const BatchNormGeometry& g = first.geometry;
  const DeviceUnsummedGrads grads = dy.map(operand);
  const DeviceNormGrads own = gradients.first.map(operand), other = gradients.second.map(operand);
  const auto run = [&]<class T, int V>() {
    // With 16-byte packs, sums, factors and several rows would not fit 80 registers.
    cuda::backward<T, (V > 1 ? V / 2 : V)>(context_, allocator_, g, device_norm(first),
                                           device_norm(second), grads, own, other);
  };
  with_packs(g.dtype, g.channels, run, first.x.raw(), second.x.raw(), grads.first.data,
             grads.second.data, own.dx.data, other.dx.data);
}

std::shared_ptr<FusedAddNorms> make_fused_add_norms(CudaDevice& device) {
  return std::make_shared<AddNorms>(device);
}

}  // namespace whisker::cuda
