// Batch normalisation in two passes each way: one reads and adds up, one reads and writes. The
// second goes through the rows backwards: what the first read last still lies in the L2 cache.
#include "core/cuda/batch_norm.h"
#include "core/cuda/columns.cuh"
#include "core/cuda/early_launch.cuh"
#include "core/cuda/elementwise.cuh"

namespace whisker::cuda::kernels {
namespace {

/// What the first pass leaves for the others: f32 (channels).
struct Statistics {
  float* mean;
  float* inverse_deviation;
};

// Sums are of deviations from a value near the mean, lest they cancel: the average of four rows
// (Chan, Golub and LeVeque 1983, "shifted data").
template <int V, class T>
__device__ void load_shift(const T* x, const Columns& t, int64_t channel, float (&shift)[V]) {
  for (int v = 0; v < V; ++v) shift[v] = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const Pack<T, V> pack = load_pack<V>(x, t.rows * i / 4 * t.channels + channel);
#pragma unroll
    for (int v = 0; v < V; ++v) shift[v] += 0.25f * to_f32(pack.at[v]);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(column_threads)
    statistics_kernel(Columns t, float epsilon, const T* x, Statistics out, Running running,
                      float2* partials, uint32_t* tickets) {
  wait_for_previous();
  float shift[V];
  if (own_channel<V>(t) < t.channels) load_shift<V>(x, t, own_channel<V>(t), shift);
  const auto add = [&](int64_t row, int64_t channel, float(&sum)[V], float(&squares)[V]) {
    const Pack<T, V> pack = load_pack<V>(x, row * t.channels + channel);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float deviation = to_f32(pack.at[v]) - shift[v];
      sum[v] += deviation;
      squares[v] = fmaf(deviation, deviation, squares[v]);
    }
  };
  const auto finish = [&](int64_t channel, float sum, float squares) {
    const auto rows = static_cast<float>(t.rows);
    float from[1];
    load_shift<1>(x, t, channel, from);
    const float offset = sum / rows;
    float spread = squares - sum * offset;
    if (spread < 0) spread = 0;  // by rounding; a NaN stays one
    const float mean = from[0] + offset;
    out.mean[channel] = mean;
    out.inverse_deviation[channel] = 1 / sqrtf(spread / rows + epsilon);
    if (!running.mean) return;
    const float variance = spread / fmaxf(rows - 1, 1.0f);
    running.pending_mean[channel] = running.kept * running.mean[channel] + running.added * mean;
    running.pending_variance[channel] =
        running.kept * running.variance[channel] + running.added * variance;
  };
  column_sums<V, 4>(t, partials, tickets, add, finish);
}

// y = f(z + residual), z = (x - mean) scale + beta with scale = gamma / deviation. Both ways
// compute z by this one expression, so that the backward pass finds the very sign of the forward
// one.
__device__ float normalised(float x, float center, float scale, float shift) {
  return fmaf(x - center, scale, shift);
}

template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    normalise_kernel(Columns t, bool relu, const T* x, const T* residual, T* y, Channels gamma,
                     Channels beta, const float* mean, const float* inverse_deviation,
                     const float* variance, float epsilon) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  float center[V], scale[V], shift[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float inverse =
        variance ? 1 / sqrtf(variance[channel + v] + epsilon) : inverse_deviation[channel + v];
    center[v] = mean[channel + v];
    scale[v] = inverse * load(gamma, channel + v);
    shift[v] = load(beta, channel + v);
  }
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows);
  const int step = block_threads / t.width;
#pragma unroll 4
  for (int64_t r = end - 1 - threadIdx.x / static_cast<unsigned>(t.width); r >= begin; r -= step) {
    const int64_t at = r * t.channels + channel;
    Pack<T, V> pack = load_pack<V>(x, at);
    Pack<T, V> added;
    if (residual) added = load_pack<V>(residual, at);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float z = normalised(to_f32(pack.at[v]), center[v], scale[v], shift[v]);
      if (residual) z += to_f32(added.at[v]);
      if (relu) z = z < 0 ? 0 : z;
      pack.at[v] = from_f32<T>(z);
    }
    store_pack<V>(y, at, pack);
  }
}

/// Where dz = relu'(z) dy gets its slope from.
enum class Slope { one, y, x };

/// A thread's channels: what z needs.
template <int V>
struct Factors {
  float center[V] = {}, scale[V] = {}, shift[V] = {};
};
template <Slope S, int V>
__device__ Factors<V> factors_of(const BatchNormGradient& p, int64_t channel) {
  Factors<V> f;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int64_t c = channel + v;
    if (p.x && p.mean) f.center[v] = p.mean[c];
    if (S == Slope::x || p.dx) f.scale[v] = p.inverse_deviation[c] * load(p.gamma, c);
    if (S == Slope::x) f.shift[v] = load(p.beta, c);
  }
  return f;
}

/// dy, of one tensor or of two.
template <int V, class T>
__device__ Pack<T, V> load_gradient(const T* dy, const T* more, int64_t at) {
  Pack<T, V> sum = load_pack<V>(dy, at);
  if (more) {
    const Pack<T, V> term = load_pack<V>(more, at);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sum.at[v] = from_f32<T>(to_f32(sum.at[v]) + to_f32(term.at[v]));
    }
  }
  return sum;
}

/// dz in place of dy: see Note [relu's gradient and NaN] in core/reference/activation_functions.h.
/// `out` is y.
template <Slope S, int V, class T>
__device__ void through_relu(Pack<T, V>& dy, const Pack<T, V>& x, const Pack<T, V>& out,
                             const Factors<V>& f) {
  if constexpr (S != Slope::one) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float z = normalised(to_f32(x.at[v]), f.center[v], f.scale[v], f.shift[v]);
      const T y = S == Slope::y ? out.at[v] : from_f32<T>(z);
      if (to_f32(y) <= 0) dy.at[v] = from_f32<T>(0.0f);
    }
  }
}

/// Coefficients of dx = scale dz + (x - mean) slope + shift, f32 (channels) each.
struct InputCoefficients {
  float* slope;
  float* shift;
};

// sum(dz) and sum(dz (x - mean)), and dresidual = dz on the way. x null: only dbeta is wanted.
template <class T, int V, Slope S>
__global__ void __launch_bounds__(column_threads)
    gradient_sums_kernel(Columns t, BatchNormGradient p, InputCoefficients out, float2* partials,
                         uint32_t* tickets) {
  wait_for_previous();
  const auto* x = static_cast<const T*>(p.x);
  const auto* y = static_cast<const T*>(p.y);
  const auto* dy = static_cast<const T*>(p.dy);
  const auto* more = static_cast<const T*>(p.more);
  auto* dresidual = static_cast<T*>(p.dresidual);
  Factors<V> f;
  if (own_channel<V>(t) < t.channels) f = factors_of<S, V>(p, own_channel<V>(t));
  const auto add = [&](int64_t row, int64_t channel, float(&sum)[V], float(&correlation)[V]) {
    const int64_t at = row * t.channels + channel;
    Pack<T, V> dz = load_gradient<V>(dy, more, at);
    Pack<T, V> in, result;
    if (x) in = load_pack<V>(x, at);
    if (S == Slope::y) result = load_pack<V>(y, at);
    through_relu<S, V>(dz, in, result, f);
    if (dresidual) store_pack<V>(dresidual, at, dz);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sum[v] += to_f32(dz.at[v]);
      if (x) {
        correlation[v] = fmaf(to_f32(dz.at[v]), to_f32(in.at[v]) - f.center[v], correlation[v]);
      }
    }
  };
  const auto finish = [&](int64_t c, float sum, float correlation) {
    const float inverse = x ? p.inverse_deviation[c] : 0;
    if (p.dbeta.data) store(p.dbeta, c, sum);
    if (p.dgamma.data) store(p.dgamma, c, correlation * inverse);
    if (out.slope) {
      const float scale = inverse * load(p.gamma, c);
      const auto rows = static_cast<float>(t.rows);
      out.slope[c] = -scale * inverse * inverse * correlation / rows;
      out.shift[c] = -scale * sum / rows;
    }
  };
  column_sums<V, 2>(t, partials, tickets, add, finish);
}

// dx = scale dz + (x - mean) slope + shift; without coefficients (constant statistics) scale dz.
// dz is dresidual where the first pass wrote one, else it is made again.
template <class T, int V, Slope S>
__global__ void __launch_bounds__(block_threads)
    input_gradient_kernel(Columns t, BatchNormGradient p, InputCoefficients k) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  const Factors<V> f = factors_of<S, V>(p, channel);
  float slope[V], shift[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    slope[v] = k.slope ? k.slope[channel + v] : 0;
    shift[v] = k.slope ? k.shift[channel + v] : 0;
  }
  const auto* x = static_cast<const T*>(p.x);
  const auto* dy = static_cast<const T*>(p.dresidual ? p.dresidual : p.dy);
  const auto* more = static_cast<const T*>(p.dresidual ? nullptr : p.more);
  const auto* y = static_cast<const T*>(p.y);
  auto* dx = static_cast<T*>(p.dx);
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows);
  const int step = block_threads / t.width;
#pragma unroll 2
  for (int64_t r = end - 1 - threadIdx.x / static_cast<unsigned>(t.width); r >= begin; r -= step) {
    const int64_t at = r * t.channels + channel;
    Pack<T, V> d = load_gradient<V>(dy, more, at);
    Pack<T, V> in, result;
    if (k.slope || S == Slope::x) in = load_pack<V>(x, at);
    if (S == Slope::y) result = load_pack<V>(y, at);
    through_relu<S, V>(d, in, result, f);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float value = fmaf(f.scale[v], to_f32(d.at[v]), shift[v]);
      if (k.slope) value = fmaf(to_f32(in.at[v]) - f.center[v], slope[v], value);
      d.at[v] = from_f32<T>(value);
    }
    store_pack<V>(dx, at, d);
  }
}

// The layout of the passes that read and write.
Columns map_columns(const Context& context, const BatchNormGeometry& g, int pack) {
  return Columns::of(g.rows, g.channels, pack, block_threads, context.multiprocessors() * 16, 4);
}

dim3 grid_of(const Columns& t) {
  return {t.tiles, t.chunks};
}

template <class T, int V>
void statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                const BatchNorm& p, const Running& running) {
  const Columns t = sum_columns(context, g.rows, g.channels, V);
  const Scratch partials(allocator, int64_t{t.chunks} * g.channels * int64_t{sizeof(float2)});
  launch_early(context, grid_of(t), column_threads, statistics_kernel<T, V>, t,
               static_cast<float>(g.epsilon), static_cast<const T*>(p.x),
               Statistics{p.mean, p.inverse_deviation}, running, partials.as<float2>(),
               context.tickets());
  check_launch("batch_norm statistics");
}

template <class T, int V>
void normalise(Context& context, const BatchNormGeometry& g, const BatchNorm& p, bool training) {
  const Columns t = map_columns(context, g, V);
  launch_early(context, grid_of(t), block_threads, normalise_kernel<T, V>, t,
               g.activation.kind == Activation::relu, static_cast<const T*>(p.x),
               static_cast<const T*>(p.residual), static_cast<T*>(p.y), p.gamma, p.beta, p.mean,
               p.inverse_deviation, training ? nullptr : p.variance, static_cast<float>(g.epsilon));
}

}  // namespace

void batch_norm_statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                           const BatchNorm& p, const Running& running) {
  const auto run = [&]<class T, int V>() { statistics<T, V>(context, allocator, g, p, running); };
  with_packs(g.dtype, g.channels, run, p.x);
}

void batch_norm_train(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                      const BatchNorm& p, const Running& running) {
  const auto run = [&]<class T, int V>() {
    statistics<T, V>(context, allocator, g, p, running);
    normalise<T, V>(context, g, p, true);
  };
  with_packs(g.dtype, g.channels, run, p.x, p.residual, p.y);
  check_launch("batch_norm");
}

void batch_norm_inference(Context& context, const BatchNormGeometry& g, const BatchNorm& p) {
  with_packs(
      g.dtype, g.channels, [&]<class T, int V>() { normalise<T, V>(context, g, p, false); }, p.x,
      p.residual, p.y);
  check_launch("batch_norm");
}

void batch_norm_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                         bool batch_statistics, const BatchNormGradient& p) {
  const bool through_statistics = p.dx && batch_statistics;
  const bool sums = through_statistics || p.dgamma.data || p.dbeta.data || p.dresidual;
  const bool relu = g.activation.kind == Activation::relu;
  // Without a residual z follows from x, which is read anyway: one tensor less in each pass.
  const Slope slope = !relu ? Slope::one : p.x && p.dx && !g.residual ? Slope::x : Slope::y;
  const auto run = [&]<class T, int V, Slope S>() {
    // Eight channels' factors and sums do not fit the 64 registers of a thread: 120 to 152 bytes of
    // them would spill.
    constexpr int n = S == Slope::x && V > 4 ? 4 : V;
    const Columns t = sum_columns(context, g.rows, g.channels, n);
    const int64_t partial_floats = int64_t{t.chunks} * g.channels * 2;
    const Scratch memory(allocator, (partial_floats + 2 * g.channels) * int64_t{sizeof(float)});
    InputCoefficients k{nullptr, nullptr};
    if (through_statistics) {
      k.slope = memory.as<float>() + partial_floats;
      k.shift = k.slope + g.channels;
    }
    if (sums) {
      launch_early(context, grid_of(t), column_threads, gradient_sums_kernel<T, n, S>, t, p, k,
                   memory.as<float2>(), context.tickets());
      check_launch("batch_norm_backward sums");
    }
    if (!p.dx) return;
    const Columns map = map_columns(context, g, V);
    if (p.dresidual) {
      launch_early(context, grid_of(map), block_threads, input_gradient_kernel<T, V, Slope::one>,
                   map, p, k);
    } else {
      launch_early(context, grid_of(map), block_threads, input_gradient_kernel<T, V, S>, map, p, k);
    }
    check_launch("batch_norm_backward");
  };
  const auto with_slope = [&]<class T, int V>() {
    if (slope == Slope::one) run.template operator()<T, V, Slope::one>();
    if (slope == Slope::y) run.template operator()<T, V, Slope::y>();
    if (slope == Slope::x) run.template operator()<T, V, Slope::x>();
  };
  with_packs(g.dtype, g.channels, with_slope, p.x, p.y, p.dy, p.more, p.dx, p.dresidual);
}

}  // namespace whisker::cuda::kernels
