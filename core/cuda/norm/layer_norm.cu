// Layer normalisation. A warp, or a block where rows are long, reads each row from memory once and
// then from the cache. The gradients of gamma and beta are channel sums (row_pass.cuh).
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"
#include "core/cuda/ops/columns.cuh"

namespace whisker::cuda {
namespace {

/// The row of one of G threads, in packs of V elements.
template <class T, int V, int G>
struct LayerRow {
  int64_t features;
  int lane;

  /// Calls use(first feature, packs of x...) for this thread's packs, loaded four ahead.
  template <class Use, class... X>
  __device__ void for_each_pack(const Use& use, X... x) const {
    for_each_row<4>(
        int64_t{lane} * V, features, G * V, [&](int64_t f) { return load_packs<T, V>(f, x...); },
        use);
  }
  __device__ float average(float own) const {
    return group_sum<G>(own) / static_cast<float>(features);
  }
};

template <class T, int V, int G>
__global__ void __launch_bounds__(block_threads)
    layer_norm_kernel(LayerNormGeometry g, DeviceNorm p) {
  for_each_column<G>(g.rows, [&](int64_t number, int lane) {
    const LayerRow<T, V, G> row{g.features, lane};
    const T* const x = p.x.as<const T>() + number * g.features;
    T* const y = p.y.as<T>() + number * g.features;
    float sum = 0, squares = 0;
    const auto add = [&](int64_t, const auto& packs) {
      packs.for_each([&](int, float in) { sum += in; });
    };
    row.for_each_pack(add, x);
    const float mean = row.average(sum);
    const auto add_square = [&](int64_t, const auto& packs) {
      packs.for_each([&](int, float in) { squares = fmaf(in - mean, in - mean, squares); });
    };
    row.for_each_pack(add_square, x);
    const float inverse = 1 / sqrtf(row.average(squares) + static_cast<float>(g.epsilon));
    const auto normalise = [&](int64_t f, const auto& packs) {
      float out[V], scale[V], shift[V];
      load<V>(p.gamma, f, scale);
      load<V>(p.beta, f, shift);
      packs.for_each(
          [&](int v, float in) { out[v] = fmaf((in - mean) * inverse, scale[v], shift[v]); });
      store_pack<V>(y, f, rounded<T>(out));
    };
    row.for_each_pack(normalise, x);
    if (lane == 0) {
      p.mean.as<float>()[number] = mean;
      p.inv_std.as<float>()[number] = inverse;
    }
  });
}

// dx = (d - mean(d) - normalised mean(d normalised)) inv_std, d = dy gamma.
template <class T, int V, int G>
__global__ void __launch_bounds__(block_threads)
    layer_norm_input_kernel(LayerNormGeometry g, DeviceNorm p, const T* grads, T* out) {
  for_each_column<G>(g.rows, [&](int64_t number, int lane) {
    const LayerRow<T, V, G> row{g.features, lane};
    const T* const x = p.x.as<const T>() + number * g.features;
    const T* const dy = grads + number * g.features;
    T* const dx = out + number * g.features;
    const float mean = p.mean.as<float>()[number], inverse = p.inv_std.as<float>()[number];
    float sum = 0, correlation = 0;
    const auto add = [&](int64_t f, const auto& packs) {
      float scale[V];
      load<V>(p.gamma, f, scale);
      packs.for_each([&](int v, float in, float gradient) {
        const float d = gradient * scale[v];
        sum += d;
        correlation = fmaf(d, (in - mean) * inverse, correlation);
      });
    };
    row.for_each_pack(add, x, dy);
    sum = row.average(sum);
    correlation = row.average(correlation);
    const auto write = [&](int64_t f, const auto& packs) {
      float result[V], scale[V];
      load<V>(p.gamma, f, scale);
      packs.for_each([&](int v, float in, float gradient) {
        const float normalised = (in - mean) * inverse;
        result[v] = (gradient * scale[v] - sum - normalised * correlation) * inverse;
      });
      store_pack<V>(dx, f, rounded<T>(result));
    };
    row.for_each_pack(write, x, dy);
  });
}

// dbeta = sum(dy), dgamma = sum(dy normalised), over the rows. x null: only dbeta is computed.
template <class T, int V>
__global__ void __launch_bounds__(channel_sums_threads)
    layer_norm_parameters_kernel(ChannelLayout t, SumsMemory memory, DeviceNorm p, const T* dy,
                                 DeviceNormGrads out) {
  wait_for_previous();
  const auto* x = p.x.as<const T>();
  struct Row {
    RowPacks<T, V, 2> packs;
    float mean = 0, inverse = 0;
  };
  const auto load_row = [&](const RowPosition& position) {
    Row row{load_packs<T, V>(position.at, dy, IfGiven<T>{x})};
    if (x) {
      row.mean = p.mean.as<float>()[position.row];
      row.inverse = p.inv_std.as<float>()[position.row];
    }
    return row;
  };
  const auto add = [&](const RowPosition&, const Row& row, float(&sums)[2][V]) {
    row.packs.for_each([&](int v, float d, float in) {
      sums[0][v] += d;
      if (x) sums[1][v] = fmaf(d, (in - row.mean) * row.inverse, sums[1][v]);
    });
  };
  const auto finish = [&](int64_t c, const auto& sums) {
    store_parameters(out, c, sums.at[0], sums.at[1]);
  };
  channel_sums<V, 2, 4>(
      t, memory, load_row, [] {}, add, finish);
}

/// Calls run.operator()<G>(blocks) with the threads of a row.
template <class Run>
void with_threads(const LayerNormGeometry& g, const Run& run) {
  if (g.features <= 2048) return run.template operator()<32>(grid_for(g.rows * 32));
  run.template operator()<block_threads>(grid_for(g.rows, 1));
}

}  // namespace

void Normalization::layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                               const NormOutputs& out) {
  const DeviceNorm p = device_norm(in, out);
  const auto run = [&]<class T, int V>() {
    with_threads(g, [&]<int G>(unsigned blocks) {
      launch_kernel(stream(), "layer_norm", blocks, layer_norm_kernel<T, V, G>, g, p);
    });
  };
  with_packs(in.x.dtype(), g.features, run, p.x.data, p.y.data);
}

void Normalization::layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved,
                                        const Tensor& dy, const NormGrads& grads) {
  context_.enter();
  const DeviceNorm p = device_norm(saved);
  const DeviceNormGrads out = grads.map(operand);
  const auto run = [&]<class T, int V>() {
    if (out.dx.data) {
      with_threads(g, [&]<int G>(unsigned blocks) {
        launch_kernel(stream(), "layer_norm_backward input", blocks,
                      layer_norm_input_kernel<T, V, G>, g, p, dy, grads.dx);
      });
    }
    if (!out.dgamma.data && !out.dbeta.data) return;
    launch_sums(context_, allocator_, sums_layout(context_, g.rows, g.features, V),
                layer_norm_parameters_kernel<T, V>, p, dy, out);
  };
  with_packs(dy.dtype(), g.features, run, p.x.data, dy.raw(), out.dx.data);
}

}  // namespace whisker::cuda
