// Group normalisation, in passes that read whole cache lines whatever the groups: blockIdx.z is the
// example, blockIdx.x a tile of its channels and blockIdx.y a chunk of its positions.
// Forward: a pass over x leaves two sums per example and channel; a warp per example and group adds
// up its channels' to mean and deviation; a pass over x, by now often in the L2 cache, writes y.
// Backward: a pass over x and dy leaves two sums per example and channel. Those are added up over
// the examples to dbeta and dgamma, always in one order, and over a group's channels to what dx
// needs; a second pass writes dx.
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"
#include "core/cuda/ops/columns.cuh"

namespace whisker::cuda {
namespace {

constexpr int64_t most_examples = 65535;  // of gridDim.z; blocks go on to the examples behind

// Calls body(n, first element of n) for every example n of this block.
template <class Body>
__device__ void for_each_example(const GroupNormGeometry& g, const Body& body) {
  for (int64_t n = blockIdx.z; n < g.n; n += gridDim.z) {
    body(n, n * g.positions * g.channels);
    __syncthreads();  // shared memory is free again
  }
}

// Partial sums and tickets of this block's example; unused where there is one chunk.
__device__ SumsMemory own_memory(const ChannelLayout& t, const SumsMemory& memory) {
  return {memory.partials + 2 * int64_t{blockIdx.z} * t.chunks * t.channels,
          memory.tickets + blockIdx.z * gridDim.x};
}

// moments (n, channels): mean, and the sum of squared deviations from it. Sums are of differences
// from the channel's first value: no cancellation, whatever the mean.
template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads, 1)
    channel_moments_kernel(GroupNormGeometry g, ChannelLayout t, SumsMemory memory, const T* from,
                           float2* moments) {
  const auto positions = static_cast<float>(g.positions);
  for_each_example(g, [&](int64_t n, int64_t at) {
    const T* x = from + at;
    float shift[V];
    const auto prepare = [&] { to_floats<T>(load_pack_bytes<V>(x, own_channel<V>(t)), shift); };
    const auto add = [&](int v, float& sum, float& squares, float value) {
      add_deviation(value - shift[v], sum, squares);
    };
    const auto finish = [&](int64_t c, float sum, float squares) {
      const float d = sum / positions;
      moments[n * g.channels + c] = {to_f32(x[c]) + d, fmaxf(squares - sum * d, 0)};
    };
    sum_rows<T, V, 4>(t, own_memory(t, memory), prepare, add, finish, x);
  });
}

// mean and inv_std (n, groups) from the moments of channels (Chan, Golub and LeVeque 1983).
__global__ void __launch_bounds__(block_threads)
    group_statistics_kernel(GroupNormGeometry g, const float2* moments, float* mean,
                            float* inv_std) {
  const int64_t per_group = g.per_group();
  for_each_column<32>(g.n * g.groups, [&](int64_t s, int lane) {
    const float2* own = moments + s * per_group;  // (per_group)
    float sum = 0;
    for (int64_t c = lane; c < per_group; c += 32) sum += own[c].x;
    const float center = group_sum<32>(sum) / static_cast<float>(per_group);
    float squares = 0;
    for (int64_t c = lane; c < per_group; c += 32) {
      const float d = own[c].x - center;
      squares += fmaf(static_cast<float>(g.positions) * d, d, own[c].y);
    }
    const float variance = group_sum<32>(squares) / static_cast<float>(g.positions * per_group);
    if (lane != 0) return;
    mean[s] = center;
    inv_std[s] = 1 / sqrtf(variance + static_cast<float>(g.epsilon));
  });
}

// Calls use(v, c, s) for the channels c of this thread's pack, whose statistics are at s.
template <int V, class Use>
__device__ void for_own_channels(const GroupNormGeometry& g, const ChannelLayout& t, int64_t n,
                                 const Use& use) {
  const int64_t first = own_channel<V>(t);
#pragma unroll
  for (int v = 0; v < V; ++v) use(v, first + v, n * g.groups + (first + v) / g.per_group());
}

template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads)
    normalise_groups_kernel(GroupNormGeometry g, ChannelLayout t, DeviceNorm p) {
  for_each_example(g, [&](int64_t n, int64_t at) {
    NormFactors<V> norm;
    const auto prepare = [&] {
      for_own_channels<V>(g, t, n, [&](int v, int64_t c, int64_t s) {
        norm.center[v] = p.mean.as<float>()[s];
        norm.scale[v] = p.inv_std.as<float>()[s] * load(p.gamma, c);
        norm.shift[v] = load(p.beta, c);
      });
    };
    map_rows<T, V, 4, Walk::chunk>(
        t, p.y.as<T>() + at, prepare, [&](int v, float x) { return norm.z(v, x); },
        p.x.as<const T>() + at);
  });
}

// sums (n, channels) of dy and of dy times the normalised x. x null: only those of dy are used.
template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads)
    channel_gradients_kernel(GroupNormGeometry g, ChannelLayout t, SumsMemory memory, DeviceNorm p,
                             const T* grads, float2* sums) {
  for_each_example(g, [&](int64_t n, int64_t at) {
    const T* x = p.x.data ? p.x.as<const T>() + at : nullptr;
    float center[V] = {}, inverse[V] = {};
    const auto prepare = [&] {
      if (!x) return;
      for_own_channels<V>(g, t, n, [&](int v, int64_t, int64_t s) {
        center[v] = p.mean.as<float>()[s];
        inverse[v] = p.inv_std.as<float>()[s];
      });
    };
    const auto add = [&](int v, float& sum, float& correlation, float d, float in) {
      sum += d;
      if (x) correlation = fmaf(d, (in - center[v]) * inverse[v], correlation);
    };
    const auto finish = [&](int64_t c, float sum, float correlation) {
      sums[n * g.channels + c] = {sum, correlation};
    };
    sum_rows<T, V, 4>(t, own_memory(t, memory), prepare, add, finish, grads + at, IfGiven<T>{x});
  });
}

// dbeta and dgamma (channels): the sums of channels, over the examples.
__global__ void __launch_bounds__(channel_sums_threads)
    group_norm_parameters_kernel(ChannelLayout t, SumsMemory memory, const float2* sums,
                                 DeviceNormGrads out) {
  wait_for_previous();
  channel_sums<1, 2, 4>(
      t, memory, [&](const RowPosition& position) { return sums[position.at]; }, [] {},
      [](const RowPosition&, const float2& own, float(&sum)[2][1]) {
        sum[0][0] += own.x;
        sum[1][0] += own.y;
      },
      [&](int64_t c, const auto& sum) { store_parameters(out, c, sum.at[0], sum.at[1]); });
}

// means (n, groups), over a group, of d = dy gamma and of d times the normalised x.
__global__ void __launch_bounds__(block_threads)
    group_gradients_kernel(GroupNormGeometry g, const float2* sums, Channels gamma, float2* means) {
  const int64_t per_group = g.per_group();
  const auto values = static_cast<float>(g.positions * per_group);
  for_each_column<32>(g.n * g.groups, [&](int64_t s, int lane) {
    const float2* own = sums + s * per_group;  // (per_group)
    float sum = 0;
    float correlation = 0;
    for (int64_t c = lane; c < per_group; c += 32) {
      const float scale = load(gamma, s % g.groups * per_group + c);
      sum = fmaf(scale, own[c].x, sum);
      correlation = fmaf(scale, own[c].y, correlation);
    }
    sum = group_sum<32>(sum);
    correlation = group_sum<32>(correlation);
    if (lane == 0) means[s] = {sum / values, correlation / values};
  });
}

// dx = (d - mean(d) - normalised mean(d normalised)) inv_std, d = dy gamma.
template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads)
    group_norm_input_kernel(GroupNormGeometry g, ChannelLayout t, DeviceNorm p, const T* grads,
                            const float2* means, T* dx) {
  for_each_example(g, [&](int64_t n, int64_t at) {
    float center[V], scale[V], offset[V], slope[V];
    const auto prepare = [&] {
      for_own_channels<V>(g, t, n, [&](int v, int64_t c, int64_t s) {
        const float inverse = p.inv_std.as<float>()[s];
        center[v] = p.mean.as<float>()[s];
        scale[v] = load(p.gamma, c) * inverse;
        offset[v] = means[s].x * inverse;
        slope[v] = means[s].y * inverse * inverse;
      });
    };
    const auto gradient = [&](int v, float d, float in) {
      return fmaf(d, scale[v], -fmaf(in - center[v], slope[v], offset[v]));
    };
    map_rows<T, V, 4, Walk::chunk>(t, dx + at, prepare, gradient, grads + at,
                                   p.x.as<const T>() + at);
  });
}

// How the passes split x: about two blocks per multiprocessor over all examples. One chunk where
// tickets would not suffice for more.
struct ExampleLayout {
  ChannelLayout layout;
  Blocks blocks;
  int64_t partials_bytes;

  static ExampleLayout of(const Context& context, const GroupNormGeometry& g, int pack) {
    const int64_t blocks = (2 * int64_t{context.multiprocessors()} + g.n - 1) / g.n;
    ChannelLayout t = ChannelLayout::of(g.positions, g.channels, pack, blocks);
    if (int64_t{t.tiles} * g.n > Context::ticket_count) t.split_rows(1);
    return {
        .layout = t,
        .blocks = {dim3(t.tiles, t.chunks, static_cast<unsigned>(std::min(g.n, most_examples))),
                   t.threads()},
        .partials_bytes = t.chunks > 1 ? g.n * t.chunks * g.channels * int64_t{sizeof(float2)} : 0};
  }
};

unsigned group_blocks(const GroupNormGeometry& g) {
  return grid_for(g.n * g.groups * 32);
}

}  // namespace

void Normalization::group_norm(const GroupNormGeometry& g, const NormInputs& in,
                               const NormOutputs& out) {
  context_.enter();
  const DeviceNorm p = device_norm(in, out);
  const Scratch moments(allocator_, g.n * g.channels * int64_t{sizeof(float2)});
  const auto run = [&]<class T, int V>() {
    const ExampleLayout e = ExampleLayout::of(context_, g, V);
    const Scratch partials(allocator_, e.partials_bytes);
    const SumsMemory memory{partials.as<float>(), context_.tickets()};
    launch_kernel(stream(), "group_norm moments", e.blocks, channel_moments_kernel<T, V>, g,
                  e.layout, memory, in.x, moments.data());
    launch_kernel(stream(), "group_norm statistics", group_blocks(g), group_statistics_kernel, g,
                  moments.data(), out.mean, out.inv_std);
    launch_kernel(stream(), "group_norm", e.blocks, normalise_groups_kernel<T, V>, g, e.layout, p);
  };
  with_packs(in.x.dtype(), g.channels, run, p.x.data, p.y.data);
}

void Normalization::group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved,
                                        const Tensor& dy, const NormGrads& grads) {
  context_.enter();
  const DeviceNorm p = device_norm(saved);
  const DeviceNormGrads out = grads.map(operand);
  const Scratch sums(allocator_, g.n * g.channels * int64_t{sizeof(float2)});
  const auto run = [&]<class T, int V>() {
    const ExampleLayout e = ExampleLayout::of(context_, g, V);
    {
      const Scratch partials(allocator_, e.partials_bytes);
      const SumsMemory memory{partials.as<float>(), context_.tickets()};
      launch_kernel(stream(), "group_norm_backward sums", e.blocks, channel_gradients_kernel<T, V>,
                    g, e.layout, memory, p, dy, sums.data());
    }
    if (out.dgamma.data || out.dbeta.data) {
      launch_sums(context_, allocator_, sums_layout(context_, g.n, g.channels, 1),
                  group_norm_parameters_kernel, sums.as<float2>(), out);
    }
    if (!out.dx.data) return;
    const Scratch means(allocator_, g.n * g.groups * int64_t{sizeof(float2)});
    launch_kernel(stream(), "group_norm_backward groups", group_blocks(g), group_gradients_kernel,
                  g, sums.data(), p.gamma, means.data());
    launch_kernel(stream(), "group_norm_backward input", e.blocks, group_norm_input_kernel<T, V>, g,
                  e.layout, p, dy, means.data(), grads.dx);
  };
  with_packs(dy.dtype(), g.channels, run, p.x.data, dy.raw(), out.dx.data);
}

}  // namespace whisker::cuda
