// The strips of pooling (core/cuda/operators/pool2d_strips.cuh) with a batch norm in front. Forward
// they compare x, with its sign turned over where gamma is below 0, and normalise the winners
// alone. Backward dz of the windows and the sums come from the norm's own first pass over the
// winners; then a strip gathers dz as pooling does, and makes dx of it and x.
#include "core/cuda/norm/batch_norm.cuh"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/norm/pooled_batch_norm.h"
#include "core/cuda/operators/pool2d_launch.cuh"
#include "core/cuda/operators/pool2d_strips.cuh"

namespace whisker::cuda::kernels {
namespace {

/// f32 values of a thread's N channels, `Kinds` for each, in the thread's own column of shared
/// memory: registers hold the reads that are under way. Volatile, or the compiler would keep them.
template <int Kinds, int N>
struct ChannelTable {
  __device__ static volatile float& at(int kind, int channel) {
    __shared__ volatile float values[Kinds * N][block_threads];
    return values[kind * N + channel][threadIdx.x];
  }
};

/// mean and gamma / deviation of a thread's channels.
template <int N>
__device__ void load_factors(const PooledNorm& norm, int64_t channel, float (&center)[N],
                             float (&scale)[N]) {
  load<N>(norm.gamma, channel, scale);
#pragma unroll
  for (int v = 0; v < N; ++v) {
    center[v] = norm.mean[channel + v];
    scale[v] *= norm.inverse_deviation[channel + v];
  }
}

/// What becomes of maxima: see Maxima. Result is y = f(normalised winner), and the winner itself.
template <class T, int N>
struct NormalisedMaxima {
  static constexpr int blocks = 3;
  enum Kind { center, scale, shift, kinds };
  using Table = ChannelTable<kinds, N>;

  PooledNorm norm;
  bool relu;
  Pack<T, N>* y;
  Pack<T, N>* won;
  Pack<uint8_t, N>* places;

  struct OfChannels {
    const NormalisedMaxima& result;
    Words<T, N> sign = Words<T, N>::filled(0);  // turned over where z falls as x grows

    __device__ Words<T, N> compared(const Words<T, N>& x) const {
      Words<T, N> turned;
#pragma unroll
      for (int i = 0; i < Words<T, N>::count; ++i) turned.at[i] = x.at[i] ^ sign.at[i];
      return turned;
    }
    __device__ void store(int64_t at, LargestSoFar<T, N> largest) const {
      const float lowest = result.relu ? 0 : -INFINITY;
      largest.value = compared(largest.value);
      Words<T, N> normal;
#pragma unroll
      for (int i = 0; i < Words<T, N>::count; ++i) {
        normal.at[i] = mapped<T, N>(i, [&](int e, int v) {
          const float z = normalised(element<T>(largest.value.at[i], e), Table::at(center, v),
                                     Table::at(scale, v), Table::at(shift, v));
          return z < lowest ? lowest : z;
        });
      }
      store_words(result.y + at, normal);
      if (result.won) largest.store(result.won + at, result.places + at);
    }
  };
  __device__ OfChannels of_channels(int pack) const {
    float centers[N], scales[N], shifts[N];
    load_factors<N>(norm, int64_t{pack} * N, centers, scales);
    load<N>(norm.beta, int64_t{pack} * N, shifts);
    OfChannels own{.result = *this};
#pragma unroll
    for (int v = 0; v < N; ++v) {
      Table::at(center, v) = centers[v];
      Table::at(scale, v) = scales[v];
      Table::at(shift, v) = shifts[v];
      if (scales[v] < 0) own.sign.at[v / per_word<T, N>] |= sign_bit<T>(v % per_word<T, N>);
    }
    return own;
  }
};

/// What becomes of the dz that elements gather: see GatheredGradient. Result is dx = scale dz +
/// (x - mean) slope + shift.
template <class T, int N>
struct NormalisedGradient {
  static constexpr int blocks = 3;
  enum Kind { center, scale, slope, shift, kinds };
  using Table = ChannelTable<kinds, N>;

  PooledNorm norm;
  InputCoefficients coefficients;
  Pack<T, N>* dx;

  struct OfChannels {
    const NormalisedGradient& result;

    struct Read {
      Words<T, N> x[4];
      int64_t at[4];
      bool inside[4];
    };
    template <class Inside, class At>
    __device__ Read read(const Inside& inside, const At& at) const {
      const auto* x = static_cast<const Pack<T, N>*>(result.norm.x);
      Read loaded;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        loaded.at[e] = at(e);
        loaded.inside[e] = inside(e);
        loaded.x[e] = loaded.inside[e] ? load_words(x + loaded.at[e]) : Words<T, N>::filled(0);
      }
      return loaded;
    }
    // By words, so that what they need of their channels is read once for four elements.
    template <class Inside, class At, class Gathered>
    __device__ void store(Read read, const Inside&, const At&, const Gathered& gathered) const {
#pragma unroll
      for (int i = 0; i < Words<T, N>::count; ++i) {
        constexpr int width = per_word<T, N>;
        float factors[kinds][width];
#pragma unroll
        for (int k = 0; k < kinds; ++k) {
#pragma unroll
          for (int e = 0; e < width; ++e) factors[k][e] = Table::at(k, i * width + e);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const uint32_t x = read.x[k].at[i], dz = gathered(k, i);
          read.x[k].at[i] = mapped<T, N>(i, [&](int e, int) {
            const float own = fmaf(factors[scale][e], element<T>(dz, e), factors[shift][e]);
            return fmaf(element<T>(x, e) - factors[center][e], factors[slope][e], own);
          });
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (read.inside[e]) store_words(result.dx + read.at[e], read.x[e]);
      }
    }
  };
  __device__ OfChannels of_channels(int pack) const {
    constexpr int together = N > 1 ? N / 2 : 1;  // all of them would not fit 80 registers
#pragma unroll 1
    for (int first = 0; first < N; first += together) {
      const int64_t channel = int64_t{pack} * N + first;
      float centers[together], scales[together];
      load_factors<together>(norm, channel, centers, scales);
#pragma unroll
      for (int v = 0; v < together; ++v) {
        Table::at(center, first + v) = centers[v];
        Table::at(scale, first + v) = scales[v];
        Table::at(slope, first + v) = coefficients.slope[channel + v];
        Table::at(shift, first + v) = coefficients.shift[channel + v];
      }
    }
    return {*this};
  }
};

/// Calls run.operator()<K>() for windows of KxK.
template <class Run>
void visit_window(const Pool2dGeometry& pool, const Run& run) {
  if (pool.kernel_h == 3) return run.template operator()<3>();
  run.template operator()<2>();
}

}  // namespace

void normalise_pooled(const Context& context, const BatchNormGeometry& g,
                      const Pool2dGeometry& pool, const PooledNorm& norm, const PooledResults& r) {
  const auto run = [&]<class T, int N>(const Places& p) {
    const StripLaunch launch = strip_launch(context, p, p.h_out, p.w_out);
    visit_window(pool, [&]<int K>() {
      using Result = NormalisedMaxima<T, N>;
      launch_early(context, launch.blocks.grid, launch.blocks.block,
                   strip_max_kernel<T, N, K, 2, Result>, p, launch.strip,
                   static_cast<const Pack<T, N>*>(norm.x),
                   Result{.norm = norm,
                          .relu = g.activation.kind == Activation::relu,
                          .y = static_cast<Pack<T, N>*>(r.y),
                          .won = static_cast<Pack<T, N>*>(r.won),
                          .places = reinterpret_cast<Pack<uint8_t, N>*>(r.places)});
    });
  };
  visit_packed(pool, run, r.places, norm.x, r.y, r.won);
  check_launch("batch_norm_max_pool2d");
}

void pooled_batch_norm_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                                const Pool2dGeometry& pool, const PooledNorm& norm,
                                const PooledGradient& p) {
  BatchNormGeometry windows = g;
  windows.rows = pool.n * pool.h_out * pool.w_out;
  const int64_t dz_bytes =
      p.dx ? windows.rows * g.channels * static_cast<int64_t>(size_of(g.dtype)) : 0;
  const Scratch dz(allocator, dz_bytes);  // (N, h_out, w_out, C)
  const Scratch memory(allocator, 2 * g.channels * int64_t{sizeof(float)});
  InputCoefficients coefficients;
  if (p.dx) {
    coefficients = {.slope = memory.as<float>(),
                    .shift = memory.as<float>() + g.channels,
                    .rows = static_cast<float>(g.rows)};
  }
  // Sums over all elements are sums over the winners: the others' dz is 0.
  batch_norm_gradient_sums(context, allocator, windows,
                           {.x = p.won,
                            .dy = p.dy,
                            .more = p.more,
                            .gamma = norm.gamma,
                            .beta = norm.beta,
                            .mean = norm.mean,
                            .inverse_deviation = norm.inverse_deviation,
                            .dgamma = p.dgamma,
                            .dbeta = p.dbeta,
                            .dresidual = p.dx ? dz.data() : nullptr},
                           coefficients);
  if (!p.dx) return;
  const auto run = [&]<class T, int N>(const Places& places) {
    const int down = (places.h + places.pad_top + 1) / 2;
    const int across = (places.w + places.pad_left + 1) / 2;
    const StripLaunch launch = strip_launch(context, places, down, across);
    visit_window(pool, [&]<int K>() {
      using Result = NormalisedGradient<T, N>;
      launch_early(
          context, launch.blocks.grid, launch.blocks.block, strip_gradient_kernel<T, N, K, Result>,
          places, down, across, launch.strip, reinterpret_cast<const Pack<uint8_t, N>*>(p.places),
          static_cast<const Pack<T, N>*>(dz.data()),
          Result{.norm = norm, .coefficients = coefficients, .dx = static_cast<Pack<T, N>*>(p.dx)});
    });
  };
  visit_packed(pool, run, p.places, norm.x, dz.data(), p.dx);
  check_launch("batch_norm_max_pool2d's gradient");
}

}  // namespace whisker::cuda::kernels
