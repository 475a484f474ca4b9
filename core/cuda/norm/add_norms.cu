// Two batch norms, fused. Forward: one pass reads both tensors and writes the sum. Backward: the
// first pass computes the sums of both norms, all that follows from them, and stores dz = f'(y) dy
// in the memory of the second's dx; the second pass computes both dx from it, in reverse, since the
// L2 cache still holds the last rows.
#include "core/backend/fused_ops.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/norm/row_pass.cuh"

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

/// One norm's gradient: dx = scale dz + slope x + offset, f32 (3, channels), and the gradients of
/// gamma and beta.
struct OneNorm {
  DeviceNorm norm;
  DeviceNormGrads out;
  float* coefficients;

  /// Stores what follows from sum(dz) and sum(dz (x - mean)) of channel c.
  __device__ void finish(const ChannelLayout& t, int64_t c, float sum, float correlation) const {
    const float inverse = norm.inv_std.as<float>()[c], scale = load(norm.gamma, c) * inverse;
    const ThroughStatistics through(scale, inverse, sum, correlation, static_cast<float>(t.rows));
    coefficients[c] = scale;
    coefficients[t.channels + c] = through.slope;
    coefficients[2 * t.channels + c] =
        fmaf(-norm.mean.as<float>()[c], through.slope, through.shift);
    store_parameters(out, c, sum, correlation * inverse);
  }
};

// sum(dz), sum(dz (x - mean)) and the latter of the second norm; of four sums one is 0. dz (rows,
// channels), unless null, is written too, rounded once for all readers.
template <class T, int V>
__global__ void __launch_bounds__(most_sums_threads)
    add_norms_sums_kernel(ChannelLayout t, SumsMemory memory, bool relu, OneNorm first,
                          OneNorm second, DeviceUnsummedGrads grads, T* dz) {
  wait_for_previous();
  const auto* more = grads.second.as<const T>();
  const int64_t channel = own_channel<V>(t);
  SummedNorms<V> norms;
  float center[V], other_center[V];
  const auto prepare = [&] {
    load(first.norm.mean.as<float>(), channel, center);
    load(second.norm.mean.as<float>(), channel, other_center);
    norms = SummedNorms<V>(first.norm, second.norm, channel);
  };
  const auto load_row = [&](const RowPosition& position) {
    return load_packs<T, V>(position.at, grads.first.as<const T>(), IfGiven<T>{more},
                            first.norm.x.as<const T>(), second.norm.x.as<const T>());
  };
  const auto add = [&](const RowPosition& position, const RowPacks<T, V, 4>& in,
                       float(&sums)[4][V]) {
    float d[V];
    in.for_each([&](int v, float own_dy, float term, float one, float other) {
      const T y = from_f32<T>(norms.z(v, one, other));
      d[v] = more ? to_f32(from_f32<T>(own_dy + term)) : own_dy;
      if (relu && to_f32(y) <= 0) d[v] = 0;
      sums[0][v] += d[v];
      sums[1][v] = fmaf(d[v], one - center[v], sums[1][v]);
      sums[2][v] = fmaf(d[v], other - other_center[v], sums[2][v]);
    });
    if (dz) store_pack<V>(dz, position.at, rounded<T>(d));
  };
  channel_sums<V, 4, 2>(t, memory, load_row, prepare, add, [&](int64_t c, const auto& sums) {
    first.finish(t, c, sums.at[0], sums.at[1]);
    second.finish(t, c, sums.at[0], sums.at[2]);
  });
}

/// OneNorm's dx for a thread's channels.
template <int V>
struct InputGradient {
  float scale[V], slope[V], offset[V];

  __device__ void read(const OneNorm& norm, const ChannelLayout& t, int64_t channel) {
    load(norm.coefficients, channel, scale);
    load(norm.coefficients + t.channels, channel, slope);
    load(norm.coefficients + 2 * t.channels, channel, offset);
  }
  __device__ float dx(int v, float dz, float x) const {
    return two_terms(dz, scale[v], x, slope[v], offset[v]);
  }
};

// Both dx from dz, one of them in place.
template <class T, int V>
__global__ void __launch_bounds__(block_threads, gradient_blocks)
    add_norms_gradients_kernel(ChannelLayout t, OneNorm first, OneNorm second, const T* dz) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  InputGradient<V> gradient, other;
  const auto prepare = [&] {
    gradient.read(first, t, channel);
    other.read(second, t, channel);
  };
  auto* const dx = first.out.dx.as<T>();
  auto* const dadded = second.out.dx.as<T>();
  const auto load_row = [&](const RowPosition& position) {
    return load_packs<T, V>(position.at, dz, first.norm.x.as<const T>(),
                            second.norm.x.as<const T>());
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
      launch_map<V>(context_, sums_layout(context_, g.rows, g.channels, V), result_blocks,
                    add_norms_kernel<T, V>, g.activation.kind == Activation::relu,
                    device_norm(first), device_norm(second), static_cast<T*>(y.raw()));
    };
    with_packs(g.dtype, g.channels, run, first.x.raw(), second.x.raw(), y.raw());
  }

  void backward(const TrainingNorm& first, const TrainingNorm& second, const UnsummedGrads& dy,
                const AddNormsGradients& gradients) override {
    context_.enter();
    const BatchNormGeometry& g = first.geometry;
    const Scratch memory(allocator_, 6 * g.channels * int64_t{sizeof(float)});
    auto* const coefficients = memory.as<float>();
    const OneNorm one{device_norm(first), gradients.first.map(operand), coefficients};
    const OneNorm other{device_norm(second), gradients.second.map(operand),
                        coefficients + 3 * g.channels};
    const DeviceUnsummedGrads grads = dy.map(operand);
    const auto run = [&]<class T, int pack>() {
      constexpr int V = half_pack(pack);
      auto* const dz = (other.out.dx.data ? other : one).out.dx.as<T>();
      const ChannelLayout sums = sums_layout(context_, g.rows, g.channels, V, most_sums_threads);
      launch_sums<4>(context_, allocator_, sums, add_norms_sums_kernel<T, V>,
                     g.activation.kind == Activation::relu, one, other, grads, dz);
      if (!dz) return;
      launch_map<V>(context_, sums, gradient_blocks, add_norms_gradients_kernel<T, V>, one, other,
                    dz);
    };
    with_packs(g.dtype, g.channels, run, one.norm.x.data, other.norm.x.data, grads.first.data,
               grads.second.data, one.out.dx.data, other.out.dx.data);
  }
};

}  // namespace

std::shared_ptr<FusedAddNorms> make_fused_add_norms(CudaDevice& device) {
  return std::make_shared<AddNorms>(device);
}

}  // namespace whisker::cuda
