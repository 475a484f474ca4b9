// Layer normalisation: one warp or block per row, which is read from memory once and then from the
// cache. The gradients of gamma and beta are channel sums (two_channel_sums.cuh).
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/norm/layer_norm.h"
#include "core/cuda/norm/two_channel_sums.cuh"

namespace whisker::cuda::kernels {
namespace {

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
    layer_norm_kernel(LayerNormGeometry g, LayerNorm p) {
  const auto features = static_cast<float>(g.features);
  for_each_row<G>(g.rows, [&](int64_t row, int lane) {
    const T* x = static_cast<const T*>(p.x) + row * g.features;
    T* y = static_cast<T*>(p.y) + row * g.features;
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
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(pack.at[v]) - mean) * inverse;
        pack.at[v] = from_f32<T>(fmaf(normalised, load(p.gamma, f + v), load(p.beta, f + v)));
      }
      store_pack<V>(y, f, pack);
    }
    if (lane == 0) {
      p.mean[row] = mean;
      p.inv_std[row] = inverse;
    }
  });
}

// dx = (d - mean(d) - normalised mean(d normalised)) inv_std, d = dy gamma.
template <class T, int V, int G>
__global__ void __launch_bounds__(block_threads)
    layer_norm_input_kernel(LayerNormGeometry g, LayerNormGradient p) {
  const auto features = static_cast<float>(g.features);
  for_each_row<G>(g.rows, [&](int64_t row, int lane) {
    const T* x = static_cast<const T*>(p.x) + row * g.features;
    const T* dy = static_cast<const T*>(p.dy) + row * g.features;
    T* dx = static_cast<T*>(p.dx) + row * g.features;
    const float mean = p.mean[row];
    const float inverse = p.inv_std[row];
    float sum = 0;
    float correlation = 0;
    for (int64_t f = int64_t{lane} * V; f < g.features; f += G * V) {
      const Pack<T, V> in = load_pack<V>(x, f);
      const Pack<T, V> gradient = load_pack<V>(dy, f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float d = to_f32(gradient.at[v]) * load(p.gamma, f + v);
        sum += d;
        correlation = fmaf(d, (to_f32(in.at[v]) - mean) * inverse, correlation);
      }
    }
    sum = group_sum<G>(sum) / features;
    correlation = group_sum<G>(correlation) / features;
    for (int64_t f = int64_t{lane} * V; f < g.features; f += G * V) {
      const Pack<T, V> in = load_pack<V>(x, f);
      Pack<T, V> gradient = load_pack<V>(dy, f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(in.at[v]) - mean) * inverse;
        const float d = to_f32(gradient.at[v]) * load(p.gamma, f + v);
        gradient.at[v] = from_f32<T>((d - sum - normalised * correlation) * inverse);
      }
      store_pack<V>(dx, f, gradient);
    }
  });
}

// dbeta = sum(dy), dgamma = sum(dy normalised), over the rows. x null: only dbeta is computed.
template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads)
    layer_norm_parameters_kernel(ChannelLayout t, LayerNormGradient p, float2* partials,
                                 uint32_t* tickets) {
  const auto* x = static_cast<const T*>(p.x);
  const auto* dy = static_cast<const T*>(p.dy);
  struct Row {
    PackBytes<T, V> dy, x;
    float mean = 0, inverse = 0;
  };
  const auto load_row = [&](const RowPosition& position) {
    Row row;
    row.dy = load_pack_bytes<V>(dy, position.at);
    if (x) {
      row.x = load_pack_bytes<V>(x, position.at);
      row.mean = p.mean[position.row];
      row.inverse = p.inv_std[position.row];
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
    if (p.dbeta.data) store(p.dbeta, c, sum);
    if (p.dgamma.data) store(p.dgamma, c, correlation);
  };
  two_channel_sums<V, 4>(
      t, partials, tickets, load_row, [] {}, add, finish);
}

// Calls run.operator()<G>(blocks): a warp for each row, or a block for each long row.
template <class Run>
void with_row_group(const LayerNormGeometry& g, const Run& run) {
  if (g.features <= 2048) {
    run.template operator()<32>(grid_for(g.rows * 32));
  } else {
    run.template operator()<block_threads>(grid_for(g.rows, 1));
  }
}

}  // namespace

void layer_norm(Context& context, const LayerNormGeometry& g, const LayerNorm& p) {
  const auto run = [&]<class T, int V>() {
    with_row_group(g, [&]<int G>(unsigned blocks) {
      layer_norm_kernel<T, V, G><<<blocks, block_threads, 0, context.stream()>>>(g, p);
    });
  };
  with_packs(p.dtype, g.features, run, p.x, p.y);
  check_launch("layer_norm");
}

void layer_norm_backward(Context& context, Allocator& allocator, const LayerNormGeometry& g,
                         const LayerNormGradient& p) {
  const auto run = [&]<class T, int V>() {
    if (p.dx) {
      with_row_group(g, [&]<int G>(unsigned blocks) {
        layer_norm_input_kernel<T, V, G><<<blocks, block_threads, 0, context.stream()>>>(g, p);
      });
      check_launch("layer_norm_backward input");
    }
    if (!p.dgamma.data && !p.dbeta.data) return;
    const ChannelLayout t = sums_layout(context, g.rows, g.features, V);
    const Scratch partials(allocator, int64_t{t.chunks} * g.features * int64_t{sizeof(float2)});
    layer_norm_parameters_kernel<T, V>
        <<<dim3(t.tiles, t.chunks), channel_sums_threads, 0, context.stream()>>>(
            t, p, partials.as<float2>(), context.tickets());
    check_launch("layer_norm_backward parameters");
  };
  with_packs(p.dtype, g.features, run, p.x, p.dy, p.dx);
}

}  // namespace whisker::cuda::kernels
