// Layer normalisation. A row of at most 256 packs is read once, into the registers of a part of a
// warp: see RowLanes. Longer rows and those that are no packs take one warp or block each, which
// reads them from memory once and then from the cache. The gradients of gamma and beta are channel
// sums (two_channel_sums.cuh).
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"

#include <bit>

namespace whisker::cuda {
namespace {

/// `lanes` adjacent threads of a warp, a power of two, hold a row: the k-th of a thread's packs is
/// pack lane + k lanes.
struct RowLanes {
  int lanes, packs;

  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
  __host__ __device__ int64_t rows_per_block() const { return block_threads / lanes; }

  /// Calls body(row, whether there is such a row) for this thread's rows, the whole block at once.
  template <class Body>
  __device__ void for_each_row(int64_t rows, const Body& body) const {
    const int64_t per_block = rows_per_block();
    for (int64_t first = blockIdx.x * per_block; first < rows; first += gridDim.x * per_block) {
      const int64_t row = first + static_cast<int>(threadIdx.x) / lanes;
      body(row, row < rows);
    }
  }
  /// Calls body(k, first feature of pack k) for this thread's packs, at most K.
  template <int K, int V, class Body>
  __device__ void for_each_pack(const Body& body) const {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int pack = lane() + k * lanes;
      if (pack < packs) body(k, pack * V);
    }
  }
  /// The sum over the threads of a row; all threads of the block call it.
  __device__ float sum(float value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(all_lanes, value, distance);
    }
    return value;
  }
};

/// Writes a channel vector of at most block_threads packs to shared memory in f32; a barrier must
/// follow.
template <int V>
__device__ void share(const Channels& from, int packs, float* shared) {
  const int feature = static_cast<int>(threadIdx.x) * V;
  if (feature >= packs * V) return;
  float values[V];
  load<V>(from, feature, values);
#pragma unroll
  for (int v = 0; v < V; v += 4) {
    *reinterpret_cast<float4*>(shared + feature + v) = {values[v], values[v + 1], values[v + 2],
                                                        values[v + 3]};
  }
}
template <int V>
__device__ Pack<float, V> load_shared(const float* shared, int feature) {
  Pack<float, V> values;
#pragma unroll
  for (int v = 0; v < V; v += 4) {
    const float4 four = *reinterpret_cast<const float4*>(shared + feature + v);
    values.at[v] = four.x, values.at[v + 1] = four.y;
    values.at[v + 2] = four.z, values.at[v + 3] = four.w;
  }
  return values;
}

template <class T, int V, int K>
__global__ void __launch_bounds__(block_threads, K > 4 ? 2 : 4)
    layer_norm_kernel(RowLanes group, LayerNormGeometry g, DeviceNorm p) {
  extern __shared__ float4 shared[];  // gamma, then beta (features)
  auto* const gamma = reinterpret_cast<float*>(shared);
  float* const beta = gamma + g.features;
  share<V>(p.gamma, group.packs, gamma);
  share<V>(p.beta, group.packs, beta);
  __syncthreads();
  const float per_feature = 1.0f / static_cast<float>(g.features);
  const auto epsilon = static_cast<float>(g.epsilon);
  group.for_each_row(g.rows, [&](int64_t row, bool exists) {
    const T* const x = p.x.as<const T>() + row * g.features;
    T* const y = p.y.as<T>() + row * g.features;
    PackBytes<T, V> loaded[K] = {};
    if (exists) {
      group.for_each_pack<K, V>([&](int k, int f) { loaded[k] = load_pack_bytes<V>(x, f); });
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const auto in = unpack<T, V>(loaded[k]);
#pragma unroll
      for (int v = 0; v < V; ++v) sum += to_f32(in.at[v]);
    }
    const float mean = group.sum(sum) * per_feature;
    float squares = 0;
    group.for_each_pack<K, V>([&](int k, int) {
      const auto in = unpack<T, V>(loaded[k]);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float deviation = to_f32(in.at[v]) - mean;
        squares = fmaf(deviation, deviation, squares);
      }
    });
    const float inverse = rsqrtf(fmaf(group.sum(squares), per_feature, epsilon));
    if (!exists) return;
    group.for_each_pack<K, V>([&](int k, int f) {
      auto pack = unpack<T, V>(loaded[k]);
      const auto scale = load_shared<V>(gamma, f), shift = load_shared<V>(beta, f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(pack.at[v]) - mean) * inverse;
        pack.at[v] = from_f32<T>(fmaf(normalised, scale.at[v], shift.at[v]));
      }
      store_pack<V>(y, f, pack);
    });
    if (group.lane() == 0) {
      p.mean.as<float>()[row] = mean;
      p.inv_std.as<float>()[row] = inverse;
    }
  });
}

// dx = (d - mean(d) - normalised mean(d normalised)) inv_std, d = dy gamma.
template <class T, int V, int K>
__global__ void __launch_bounds__(block_threads, K > 3 ? 2 : 3)
    layer_norm_input_kernel(RowLanes group, LayerNormGeometry g, DeviceNorm p, const T* grads,
                            T* out) {
  extern __shared__ float4 shared[];  // gamma (features)
  auto* const gamma = reinterpret_cast<float*>(shared);
  share<V>(p.gamma, group.packs, gamma);
  __syncthreads();
  const float per_feature = 1.0f / static_cast<float>(g.features);
  group.for_each_row(g.rows, [&](int64_t row, bool exists) {
    const T* const x = p.x.as<const T>() + row * g.features;
    const T* const dy = grads + row * g.features;
    T* const dx = out + row * g.features;
    PackBytes<T, V> loaded[K] = {}, gradients[K] = {};
    float mean = 0, inverse = 0;
    if (exists) {
      group.for_each_pack<K, V>([&](int k, int f) {
        loaded[k] = load_pack_bytes<V>(x, f);
        gradients[k] = load_pack_bytes<V>(dy, f);
      });
      mean = p.mean.as<const float>()[row];
      inverse = p.inv_std.as<const float>()[row];
    }
    float sum = 0, correlation = 0;
    group.for_each_pack<K, V>([&](int k, int f) {
      const auto in = unpack<T, V>(loaded[k]), gradient = unpack<T, V>(gradients[k]);
      const auto scale = load_shared<V>(gamma, f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float d = to_f32(gradient.at[v]) * scale.at[v];
        sum += d;
        correlation = fmaf(d, (to_f32(in.at[v]) - mean) * inverse, correlation);
      }
    });
    sum = group.sum(sum) * per_feature;
    correlation = group.sum(correlation) * per_feature;
    if (!exists) return;
    group.for_each_pack<K, V>([&](int k, int f) {
      const auto in = unpack<T, V>(loaded[k]);
      auto gradient = unpack<T, V>(gradients[k]);
      const auto scale = load_shared<V>(gamma, f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(in.at[v]) - mean) * inverse;
        const float d = to_f32(gradient.at[v]) * scale.at[v];
        gradient.at[v] = from_f32<T>((d - sum - normalised * correlation) * inverse);
      }
      store_pack<V>(dx, f, gradient);
    });
  });
}

// Calls body(row, lane) for every row; G threads per row.
template <int G, class Body>
__device__ void for_each_row(int64_t rows, const Body& body) {
  constexpr int per_block = block_threads / G;
  for (int64_t turn = blockIdx.x; turn * per_block < rows; turn += gridDim.x) {
    const int64_t row = turn * per_block + threadIdx.x / G;
    if (row < rows) body(row, static_cast<int>(threadIdx.x % G));  // whole groups
  }
}

// Calls visit(feature, element of x) for this lane's elements of a row.
template <int G, int V, class T, class Visit>
__device__ void for_each_element(const T* row, int64_t features, int lane, const Visit& visit) {
  for (int64_t f = int64_t{lane} * V; f < features; f += G * V) {
    const Pack<T, V> pack = load_pack<V>(row, f);
#pragma unroll
    for (int v = 0; v < V; ++v) visit(f + v, to_f32(pack.at[v]));
  }
}

template <class T, int V, int G>
__global__ void __launch_bounds__(block_threads)
    layer_norm_long_kernel(LayerNormGeometry g, DeviceNorm p) {
  const auto features = static_cast<float>(g.features);
  for_each_row<G>(g.rows, [&](int64_t row, int lane) {
    const T* x = p.x.as<const T>() + row * g.features;
    T* y = p.y.as<T>() + row * g.features;
    float sum = 0;
    for_each_element<G, V>(x, g.features, lane, [&](int64_t, float value) { sum += value; });
    const float mean = group_sum<G>(sum) / features;
    float squares = 0;
    for_each_element<G, V>(x, g.features, lane, [&](int64_t, float value) {
      squares = fmaf(value - mean, value - mean, squares);
    });
    const float inverse =
        1 / sqrtf(group_sum<G>(squares) / features + static_cast<float>(g.epsilon));
    for (int64_t f = int64_t{lane} * V; f < g.features; f += G * V) {
      Pack<T, V> pack = load_pack<V>(x, f);
      float scale[V], shift[V];
      load<V>(p.gamma, f, scale);
      load<V>(p.beta, f, shift);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(pack.at[v]) - mean) * inverse;
        pack.at[v] = from_f32<T>(fmaf(normalised, scale[v], shift[v]));
      }
      store_pack<V>(y, f, pack);
    }
    if (lane == 0) {
      p.mean.as<float>()[row] = mean;
      p.inv_std.as<float>()[row] = inverse;
    }
  });
}

template <class T, int V, int G>
__global__ void __launch_bounds__(block_threads)
    layer_norm_input_long_kernel(LayerNormGeometry g, DeviceNorm p, const T* grads, T* out) {
  const auto features = static_cast<float>(g.features);
  for_each_row<G>(g.rows, [&](int64_t row, int lane) {
    const T* x = p.x.as<const T>() + row * g.features;
    const T* dy = grads + row * g.features;
    T* dx = out + row * g.features;
    const float mean = p.mean.as<const float>()[row];
    const float inverse = p.inv_std.as<const float>()[row];
    float sum = 0;
    float correlation = 0;
    for (int64_t f = int64_t{lane} * V; f < g.features; f += G * V) {
      const Pack<T, V> in = load_pack<V>(x, f);
      const Pack<T, V> gradient = load_pack<V>(dy, f);
      float scale[V];
      load<V>(p.gamma, f, scale);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float d = to_f32(gradient.at[v]) * scale[v];
        sum += d;
        correlation = fmaf(d, (to_f32(in.at[v]) - mean) * inverse, correlation);
      }
    }
    sum = group_sum<G>(sum) / features;
    correlation = group_sum<G>(correlation) / features;
    for (int64_t f = int64_t{lane} * V; f < g.features; f += G * V) {
      const Pack<T, V> in = load_pack<V>(x, f);
      Pack<T, V> gradient = load_pack<V>(dy, f);
      float scale[V];
      load<V>(p.gamma, f, scale);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(in.at[v]) - mean) * inverse;
        const float d = to_f32(gradient.at[v]) * scale[v];
        gradient.at[v] = from_f32<T>((d - sum - normalised * correlation) * inverse);
      }
      store_pack<V>(dx, f, gradient);
    }
  });
}

// dbeta = sum(dy), dgamma = sum(dy normalised), over the rows. x null: only dbeta is computed.
template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads)
    layer_norm_parameters_kernel(ChannelLayout t, DeviceNorm p, const T* dy, DeviceNormGrads out,
                                 float2* partials, uint32_t* tickets) {
  const auto* x = p.x.as<const T>();
  struct Row {
    PackBytes<T, V> dy, x;
    float mean = 0, inverse = 0;
  };
  const auto load_row = [&](const RowPosition& position) {
    Row row;
    row.dy = load_pack_bytes<V>(dy, position.at);
    if (x) {
      row.x = load_pack_bytes<V>(x, position.at);
      row.mean = p.mean.as<const float>()[position.row];
      row.inverse = p.inv_std.as<const float>()[position.row];
    }
    return row;
  };
  const auto add = [&](const RowPosition&, const Row& row, float(&sum)[V], float(&correlation)[V]) {
    const auto gradient = unpack<T, V>(row.dy), in = unpack<T, V>(row.x);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sum[v] += to_f32(gradient.at[v]);
      if (x) {
        const float normalised = (to_f32(in.at[v]) - row.mean) * row.inverse;
        correlation[v] = fmaf(to_f32(gradient.at[v]), normalised, correlation[v]);
      }
    }
  };
  const auto finish = [&](int64_t c, float sum, float correlation) {
    if (out.dbeta.data) store(out.dbeta, c, sum);
    if (out.dgamma.data) store(out.dgamma, c, correlation);
  };
  two_channel_sums<V, 4>(
      t, partials, tickets, load_row, [] {}, add, finish);
}

/// Calls lanes.operator()<K>(group, blocks) where a row fits the registers of a warp, else
/// rows.operator()<G>(blocks) with a warp for each row, or a block for each long row.
template <int V, class Lanes, class Rows>
void with_row_groups(const Context& context, const LayerNormGeometry& g, const Lanes& lanes,
                     const Rows& rows) {
  if constexpr (V > 1) {
    constexpr int most = 4;  // packs of a thread, as long as a warp has enough lanes for them
    const int packs = static_cast<int>(std::min<int64_t>(g.features / V, INT32_MAX));
    if (packs <= block_threads) {  // 8 packs for each thread of a warp
      const auto bits = [](int n) { return static_cast<int>(std::bit_ceil(unsigned(n))); };
      const int least = std::min(bits(packs), 4);  // 64 adjacent bytes
      const RowLanes group{std::clamp(bits((packs + most - 1) / most), least, 32), packs};
      const int64_t turns = (g.rows + group.rows_per_block() - 1) / group.rows_per_block();
      const auto blocks = static_cast<unsigned>(
          std::clamp<int64_t>(turns, 1, int64_t{8} * context.multiprocessors()));
      switch ((packs + group.lanes - 1) / group.lanes) {
        case 1:
          return lanes.template operator()<1>(group, blocks);
        case 2:
          return lanes.template operator()<2>(group, blocks);
        case 3:
          return lanes.template operator()<3>(group, blocks);
        case 4:
          return lanes.template operator()<4>(group, blocks);
        default:
          return lanes.template operator()<8>(group, blocks);
      }
    }
    return rows.template operator()<block_threads>(grid_for(g.rows, 1));
  } else {
    if (g.features <= 2048) return rows.template operator()<32>(grid_for(g.rows * 32));
    rows.template operator()<block_threads>(grid_for(g.rows, 1));
  }
}

}  // namespace

void Normalization::layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                               const NormOutputs& out) {
  context_.enter();
  const DeviceNorm p = device_norm({.x = in.x,
                                    .gamma = in.gamma,
                                    .beta = in.beta,
                                    .y = out.y,
                                    .mean = out.mean,
                                    .inv_std = out.inv_std});
  const size_t vector_bytes = static_cast<size_t>(g.features) * sizeof(float);
  const cudaStream_t stream = context_.stream();
  const auto run = [&]<class T, int V>() {
    with_row_groups<V>(
        context_, g,
        [&]<int K>(const RowLanes& group, unsigned blocks) {
          layer_norm_kernel<T, V, K>
              <<<blocks, block_threads, 2 * vector_bytes, stream>>>(group, g, p);
        },
        [&]<int G>(unsigned blocks) {
          layer_norm_long_kernel<T, V, G><<<blocks, block_threads, 0, stream>>>(g, p);
        });
  };
  with_packs(in.x.dtype(), g.features, run, p.x.data, p.y.data);
  check_launch("layer_norm");
}

void Normalization::layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved,
                                        const Tensor& dy, const NormGrads& grads) {
  context_.enter();
  const DeviceNorm p = device_norm(saved);
  const DeviceNormGrads out = grads.map(operand);
  const size_t vector_bytes = static_cast<size_t>(g.features) * sizeof(float);
  const cudaStream_t stream = context_.stream();
  const auto run = [&]<class T, int V>() {
    const auto* const of_y = static_cast<const T*>(dy.raw());
    auto* const dx = out.dx.as<T>();
    if (dx) {
      with_row_groups<V>(
          context_, g,
          [&]<int K>(const RowLanes& group, unsigned blocks) {
            layer_norm_input_kernel<T, V, K>
                <<<blocks, block_threads, vector_bytes, stream>>>(group, g, p, of_y, dx);
          },
          [&]<int G>(unsigned blocks) {
            layer_norm_input_long_kernel<T, V, G>
                <<<blocks, block_threads, 0, stream>>>(g, p, of_y, dx);
          });
      check_launch("layer_norm_backward input");
    }
    if (!out.dgamma.data && !out.dbeta.data) return;
    const ChannelLayout t = sums_layout(context_, g.rows, g.features, V);
    const Scratch partials(allocator_, int64_t{t.chunks} * g.features * int64_t{sizeof(float2)});
    layer_norm_parameters_kernel<T, V><<<t.grid(), t.threads(), 0, stream>>>(
        t, p, of_y, out, partials.as<float2>(), context_.tickets());
    check_launch("layer_norm_backward parameters");
  };
  with_packs(dy.dtype(), g.features, run, p.x.data, dy.raw(), out.dx.data);
}

}  // namespace whisker::cuda
