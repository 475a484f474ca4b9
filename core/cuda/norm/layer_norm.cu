// Layer normalisation. A row of at most 256 packs is read once, into the registers of a part of a
// warp: RegisterRows. Longer rows and those that are no packs take one warp or block each, which
// reads them from memory once and then from the cache: CachedRows. The gradients of gamma and beta
// are channel sums (row_pass.cuh).
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"

#include <bit>

namespace whisker::cuda {
namespace {

/// Rows that `lanes` adjacent threads of a warp, a power of two, hold in registers: the k-th of a
/// thread's packs is pack lane + k lanes, k < K. Vectors of features are f32 in shared memory.
template <class T, int V, int K>
struct RegisterRows {
  using Element = T;
  static constexpr int width = V, forward_blocks = K > 4 ? 2 : 4, backward_blocks = K > 3 ? 2 : 3;
  int lanes, packs;
  float per_feature;  // 1 / features

  struct Row {
    PackBytes<T, V> loaded[K] = {};
    __device__ Pack<T, V> at(int k, int) const { return unpack<T, V>(loaded[k]); }
  };
  struct Vector {
    const Pack<float, V>* values;
    __device__ Pack<float, V> at(int feature) const { return values[feature / V]; }
  };

  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
  /// Calls body(row, whether there is such a row) for this thread's rows, the whole block at once.
  template <class Body>
  __device__ void for_each(int64_t rows, const Body& body) const {
    const int64_t per_block = block_threads / lanes;
    for (int64_t first = blockIdx.x * per_block; first < rows; first += gridDim.x * per_block) {
      const int64_t row = first + static_cast<int>(threadIdx.x) / lanes;
      body(row, row < rows);
    }
  }
  /// Calls body(k, first feature of pack k) for this thread's packs.
  template <class Body>
  __device__ void for_each_pack(const Body& body) const {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int own = lane() + k * lanes;
      if (own < packs) body(k, own * V);
    }
  }
  __device__ Row read(const T* row, bool exists) const {
    Row own;
    if (exists) {
      for_each_pack([&](int k, int f) { own.loaded[k] = load_pack_bytes<V>(row, f); });
    }
    return own;
  }
  /// Vector number i, of at most block_threads packs; synchronize() must follow.
  __device__ Vector vector(const Channels& from, int i) const {
    extern __shared__ Pack<float, 8> shared[];
    auto* const values = reinterpret_cast<Pack<float, V>*>(shared) + i * packs;
    const auto own = static_cast<int>(threadIdx.x);
    if (own >= packs) return {values};
    Pack<float, V> pack;
    load<V>(from, own * V, pack.at);
    values[own] = pack;
    return {values};
  }
  __device__ void synchronize() const {
    __syncthreads();
  }
  /// The average over a row's features; all threads of the block call it.
  __device__ float average(float own) const {
    return sum(own) * per_feature;
  }
  __device__ float inv_std(float squares, float epsilon) const {
    return rsqrtf(fmaf(sum(squares), per_feature, epsilon));
  }

 private:
  __device__ float sum(float value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(all_lanes, value, distance);
    }
    return value;
  }
};

/// Rows that G threads, a warp or a block, read again at each use, as they do vectors of features.
template <class T, int V, int G>
struct CachedRows {
  using Element = T;
  static constexpr int width = V, forward_blocks = 0, backward_blocks = 0;
  int64_t features;

  struct Row {
    const T* row;
    __device__ Pack<T, V> at(int, int64_t feature) const { return load_pack<V>(row, feature); }
  };
  struct Vector {
    Channels values;
    __device__ Pack<float, V> at(int64_t feature) const {
      Pack<float, V> pack;
      load<V>(values, feature, pack.at);
      return pack;
    }
  };

  __device__ int lane() const { return static_cast<int>(threadIdx.x % G); }
  template <class Body>
  __device__ void for_each(int64_t rows, const Body& body) const {
    constexpr int per_block = block_threads / G;
    for (int64_t turn = blockIdx.x; turn * per_block < rows; turn += gridDim.x) {
      const int64_t row = turn * per_block + threadIdx.x / G;
      if (row < rows) body(row, true);  // whole groups
    }
  }
  template <class Body>
  __device__ void for_each_pack(const Body& body) const {
    for (int64_t f = int64_t{lane()} * V; f < features; f += G * V) body(0, f);
  }
  __device__ Row read(const T* row, bool) const { return {row}; }
  __device__ Vector vector(const Channels& from, int) const { return {from}; }
  __device__ void synchronize() const {}
  __device__ float average(float own) const {
    return group_sum<G>(own) / static_cast<float>(features);
  }
  __device__ float inv_std(float squares, float epsilon) const {
    return 1 / sqrtf(average(squares) + epsilon);
  }
};

template <class Rows>
__global__ void __launch_bounds__(block_threads, Rows::forward_blocks)
    layer_norm_kernel(Rows rows, LayerNormGeometry g, DeviceNorm p) {
  using T = Rows::Element;
  constexpr int V = Rows::width;
  const auto gamma = rows.vector(p.gamma, 0), beta = rows.vector(p.beta, 1);
  rows.synchronize();
  rows.for_each(g.rows, [&](int64_t row, bool exists) {
    const auto x = rows.read(p.x.as<const T>() + row * g.features, exists);
    T* const y = p.y.as<T>() + row * g.features;
    float sum = 0;
    rows.for_each_pack([&](int k, auto f) {
      const auto in = x.at(k, f);
#pragma unroll
      for (int v = 0; v < V; ++v) sum += to_f32(in.at[v]);
    });
    const float mean = rows.average(sum);
    float squares = 0;
    rows.for_each_pack([&](int k, auto f) {
      const auto in = x.at(k, f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float deviation = to_f32(in.at[v]) - mean;
        squares = fmaf(deviation, deviation, squares);
      }
    });
    const float inverse = rows.inv_std(squares, static_cast<float>(g.epsilon));
    if (!exists) return;
    rows.for_each_pack([&](int k, auto f) {
      auto pack = x.at(k, f);
      const auto scale = gamma.at(f), shift = beta.at(f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float normalised = (to_f32(pack.at[v]) - mean) * inverse;
        pack.at[v] = from_f32<T>(fmaf(normalised, scale.at[v], shift.at[v]));
      }
      store_pack<V>(y, f, pack);
    });
    if (rows.lane() == 0) {
      p.mean.as<float>()[row] = mean;
      p.inv_std.as<float>()[row] = inverse;
    }
  });
}

// dx = (d - mean(d) - normalised mean(d normalised)) inv_std, d = dy gamma.
template <class Rows, class T = Rows::Element>
__global__ void __launch_bounds__(block_threads, Rows::backward_blocks)
    layer_norm_input_kernel(Rows rows, LayerNormGeometry g, DeviceNorm p, const T* grads, T* out) {
  constexpr int V = Rows::width;
  const auto gamma = rows.vector(p.gamma, 0);
  rows.synchronize();
  rows.for_each(g.rows, [&](int64_t row, bool exists) {
    const auto x = rows.read(p.x.as<const T>() + row * g.features, exists);
    const auto dy = rows.read(grads + row * g.features, exists);
    T* const dx = out + row * g.features;
    const float mean = exists ? p.mean.as<float>()[row] : 0;
    const float inverse = exists ? p.inv_std.as<float>()[row] : 0;
    float sum = 0, correlation = 0;
    rows.for_each_pack([&](int k, auto f) {
      const auto in = x.at(k, f), gradient = dy.at(k, f);
      const auto scale = gamma.at(f);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float d = to_f32(gradient.at[v]) * scale.at[v];
        sum += d;
        correlation = fmaf(d, (to_f32(in.at[v]) - mean) * inverse, correlation);
      }
    });
    sum = rows.average(sum);
    correlation = rows.average(correlation);
    if (!exists) return;
    rows.for_each_pack([&](int k, auto f) {
      const auto in = x.at(k, f);
      auto gradient = dy.at(k, f);
      const auto scale = gamma.at(f);
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

/// Calls run(rows, blocks, bytes of a vector in shared memory).
template <class T, int V, class Run>
void with_rows(const Context& context, const LayerNormGeometry& g, const Run& run) {
  if constexpr (V > 1) {
    constexpr int most = 4;  // packs of a thread, as long as a warp has enough lanes for them
    const int packs = static_cast<int>(std::min<int64_t>(g.features / V, INT32_MAX));
    if (packs <= block_threads) {  // 8 packs for each thread of a warp
      const auto bits = [](int n) { return static_cast<int>(std::bit_ceil(unsigned(n))); };
      const int least = std::min(bits(packs), 4);  // 64 adjacent bytes
      const int lanes = std::clamp(bits((packs + most - 1) / most), least, 32);
      const int64_t turns = (g.rows * lanes + block_threads - 1) / block_threads;
      const auto blocks = static_cast<unsigned>(
          std::clamp<int64_t>(turns, 1, int64_t{8} * context.multiprocessors()));
      const auto with = [&]<int K>() {
        run(RegisterRows<T, V, K>{lanes, packs, 1.0f / static_cast<float>(g.features)}, blocks,
            static_cast<size_t>(g.features) * sizeof(float));
      };
      switch ((packs + lanes - 1) / lanes) {
        case 1:
          return with.template operator()<1>();
        case 2:
          return with.template operator()<2>();
        case 3:
          return with.template operator()<3>();
        case 4:
          return with.template operator()<4>();
        default:
          return with.template operator()<8>();
      }
    }
  } else if (g.features <= 2048) {
    return run(CachedRows<T, V, 32>{g.features}, grid_for(g.rows * 32), 0);
  }
  run(CachedRows<T, V, block_threads>{g.features}, grid_for(g.rows, 1), 0);
}

}  // namespace

void Normalization::layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                               const NormOutputs& out) {
  context_.enter();
  const DeviceNorm p = device_norm(in, out);
  const auto run = [&]<class T, int V>() {
    with_rows<T, V>(context_, g, [&]<class Rows>(Rows rows, unsigned blocks, size_t vector_bytes) {
      launch_kernel(stream(), "layer_norm", {blocks, block_threads, 2 * vector_bytes},
                    layer_norm_kernel<Rows>, rows, g, p);
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
      with_rows<T, V>(context_, g, [&]<class Rows>(Rows rows, unsigned blocks, size_t bytes) {
        launch_kernel(stream(), "layer_norm_backward input", {blocks, block_threads, bytes},
                      layer_norm_input_kernel<Rows>, rows, g, p, dy, grads.dx);
      });
    }
    if (!out.dgamma.data && !out.dbeta.data) return;
    launch_sums(context_, allocator_, sums_layout(context_, g.rows, g.features, V),
                layer_norm_parameters_kernel<T, V>, p, dy, out);
  };
  with_packs(dy.dtype(), g.features, run, p.x.data, dy.raw(), out.dx.data);
}

}  // namespace whisker::cuda
