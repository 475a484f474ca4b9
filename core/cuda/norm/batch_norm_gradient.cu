// Batch normalisation's gradients in two passes: the first adds up dz and dz (x - mean), the second
// computes dx from these sums, from the last row to the first.
#include "core/cuda/norm/batch_norm.cuh"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda::kernels {
namespace {

/// f'(z) in dz = f'(z) dy. That of relu and relu6 is computed from y or from x, through z.
enum class Slope { one, y, x, hard_swish, silu };
constexpr bool reads_z(Slope s) {
  return s != Slope::one && s != Slope::y;
}

/// What rounds to 0 or less in T is at most `zero`, half of T's smallest number; what rounds to 6
/// or more is at least `six`, half of T's step below 6.
template <class T>
struct Rounds {
  static constexpr float zero = 0, six = 6;
};
template <>
struct Rounds<bfloat_t> {
  static constexpr float zero = 0x1p-134f, six = 6 - 0x1p-6f;
};
template <>
struct Rounds<half_t> {
  static constexpr float zero = 0x1p-25f, six = 6 - 0x1p-9f;
};

/// Per-channel factors of z for a thread's channels.
template <int V>
struct Factors {
  float center[V] = {}, scale[V] = {}, shift[V] = {};
};
template <Slope S, int V>
__device__ Factors<V> factors_of(const BatchNormGradient& p, int64_t channel) {
  Factors<V> f;
  if (reads_z(S) || p.dx) {
    load<V>(p.gamma, channel, f.scale);
    float inverse[V];
#pragma unroll
    for (int v = 0; v < V; ++v) inverse[v] = p.inv_std[channel + v];
#pragma unroll
    for (int v = 0; v < V; ++v) f.scale[v] = inverse[v] * f.scale[v];
  }
  if (reads_z(S)) load<V>(p.beta, channel, f.shift);
  if (p.x && p.mean) {
#pragma unroll
    for (int v = 0; v < V; ++v) f.center[v] = p.mean[channel + v];
  }
  return f;
}

/// The activation of hard_swish and silu.
constexpr ActivationSpec curve_of(Slope s) {
  return {s == Slope::silu ? Activation::silu : Activation::hard_swish};
}

/// The tensors that a pass reads (rows, channels): dy always, y where the slope comes from it, the
/// others where they are not null.
template <class T, int V, Slope S>
struct GradientRows {
  const T* x;
  const T* y;
  const T* dy;
  const T* more;  // added to dy
  bool six;       // relu6, not relu

  struct Row {
    PackBytes<T, V> x, y, dy, more;
  };
  __device__ Row load(int64_t at) const {
    Row row;
    row.dy = load_pack_bytes<V>(dy, at);
    if (x) row.x = load_pack_bytes<V>(x, at);
    if constexpr (S == Slope::y) row.y = load_pack_bytes<V>(y, at);
    if (more) row.more = load_pack_bytes<V>(more, at);
    return row;
  }
  /// See Note [relu's gradient and NaN] in core/reference/activation_functions.h.
  __device__ Pack<T, V> dz(const Row& row, const Factors<V>& f) const {
    auto d = unpack<T, V>(row.dy);
    const auto in = unpack<T, V>(row.x), out = unpack<T, V>(row.y);
    if (more) {
      const auto term = unpack<T, V>(row.more);
#pragma unroll
      for (int v = 0; v < V; ++v) d.at[v] = from_f32<T>(to_f32(d.at[v]) + to_f32(term.at[v]));
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      bool flat = false;
      if constexpr (S == Slope::y) {
        const float value = to_f32(out.at[v]);
        flat = value <= 0 || (six && value >= 6);
      }
      if constexpr (reads_z(S)) {
        const float z = normalised(to_f32(in.at[v]), f.center[v], f.scale[v], f.shift[v]);
        if constexpr (S == Slope::x) {
          flat = z <= Rounds<T>::zero || (six && z >= Rounds<T>::six);
        } else {
          d.at[v] = from_f32<T>(activation_gradient(curve_of(S), z, to_f32(d.at[v])));
        }
      }
      if (flat) d.at[v] = from_f32<T>(0.0f);
    }
    return d;
  }
};

constexpr unsigned map_blocks = 2;  // see map_grid

// sum(dz), sum(dz (x - mean)) and dresidual = dz. x null: only dbeta is computed.
template <class T, int V, Slope S>
__global__ void __launch_bounds__(channel_sums_threads)
    gradient_sums_kernel(ChannelLayout t, BatchNormGradient p, bool six, InputCoefficients out,
                         float2* partials, uint32_t* tickets) {
  wait_for_previous();
  const GradientRows<T, V, S> in{static_cast<const T*>(p.x), static_cast<const T*>(p.y),
                                 static_cast<const T*>(p.dy), static_cast<const T*>(p.more), six};
  auto* dresidual = static_cast<T*>(p.dresidual);
  Factors<V> f;
  const auto prepare = [&] { f = factors_of<S, V>(p, own_channel<V>(t)); };
  const auto load_row = [&](const RowPosition& position) { return in.load(position.at); };
  const auto add = [&](const RowPosition& position, const auto& row, float(&sum)[V],
                       float(&correlation)[V]) {
    const Pack<T, V> dz = in.dz(row, f);
    if (dresidual) store_pack<V>(dresidual, position.at, dz);
    const auto x = unpack<T, V>(row.x);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float value = to_f32(dz.at[v]);
      sum[v] += value;
      if (in.x) correlation[v] = fmaf(value, to_f32(x.at[v]) - f.center[v], correlation[v]);
    }
  };
  const auto finish = [&](int64_t c, float sum, float correlation) {
    const float inverse = in.x ? p.inv_std[c] : 0;
    const float gamma = out.slope ? load(p.gamma, c) : 0;
    if (p.dbeta.data) store(p.dbeta, c, sum);
    if (p.dgamma.data) store(p.dgamma, c, correlation * inverse);
    if (out.slope) {
      const float scale = inverse * gamma;
      out.slope[c] = -scale * inverse * inverse * correlation / out.rows;
      out.shift[c] = -scale * sum / out.rows;
    }
  };
  two_channel_sums<V, 4>(t, partials, tickets, load_row, prepare, add, finish);
}

// dx = scale dz + (x - mean) slope + shift; without coefficients (constant statistics) scale dz.
// dz is dresidual where the first pass wrote it, else it is recomputed.
template <class T, int V, Slope S>
__global__ void __launch_bounds__(block_threads, map_blocks)
    input_gradient_kernel(ChannelLayout t, BatchNormGradient p, bool six, InputCoefficients k) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  Factors<V> f;
  float slope[V] = {}, shift[V] = {};
  const auto prepare = [&] {
    f = factors_of<S, V>(p, channel);
    if (!k.slope) return;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      slope[v] = k.slope[channel + v];
      shift[v] = k.shift[channel + v];
    }
  };
  const bool of_x = k.slope || reads_z(S);
  const GradientRows<T, V, S> in{of_x ? static_cast<const T*>(p.x) : nullptr,
                                 static_cast<const T*>(p.y),
                                 static_cast<const T*>(p.dresidual ? p.dresidual : p.dy),
                                 p.dresidual ? nullptr : static_cast<const T*>(p.more), six};
  auto* dx = static_cast<T*>(p.dx);
  const auto load_row = [&](const RowPosition& position) { return in.load(position.at); };
  for_rows_reversed<V, 3>(t, load_row, prepare, [&](const RowPosition& position, const auto& row) {
    Pack<T, V> d = in.dz(row, f);
    const auto x = unpack<T, V>(row.x);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float value = fmaf(f.scale[v], to_f32(d.at[v]), shift[v]);
      if (k.slope) value = fmaf(to_f32(x.at[v]) - f.center[v], slope[v], value);
      d.at[v] = from_f32<T>(value);
    }
    store_pack<V>(dx, position.at, d);
  });
}

template <class T, int V, Slope S>
void gradient_sums(Context& context, Allocator& allocator, const ChannelLayout& t,
                   const BatchNormGradient& p, bool six, const InputCoefficients& k) {
  const Scratch partials(allocator, int64_t{t.chunks} * t.channels * int64_t{sizeof(float2)});
  launch_pdl(context, {t.tiles, t.chunks}, channel_sums_threads, gradient_sums_kernel<T, V, S>, t,
             p, six, k, partials.as<float2>(), context.tickets());
  check_launch("batch_norm_backward sums");
}

template <class T, int V, Slope S>
void backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
              const BatchNormGradient& p) {
  const bool through_statistics = p.dx && g.training;
  const bool six = g.activation.kind == Activation::relu6;
  const ChannelLayout t = sums_layout(context, g.rows, g.channels, V);
  const Scratch coefficients(allocator, 2 * g.channels * int64_t{sizeof(float)});
  InputCoefficients k;
  if (through_statistics) {
    k = {.slope = coefficients.as<float>(),
         .shift = coefficients.as<float>() + g.channels,
         .rows = static_cast<float>(g.rows)};
  }
  if (through_statistics || p.dgamma.data || p.dbeta.data || p.dresidual) {
    gradient_sums<T, V, S>(context, allocator, t, p, six, k);
  }
  if (!p.dx) return;
  if (p.dresidual) {
    launch_pdl(context, map_grid(t, map_blocks), block_threads,
               input_gradient_kernel<T, V, Slope::one>, t, p, six, k);
  } else {
    launch_pdl(context, map_grid(t, map_blocks), block_threads, input_gradient_kernel<T, V, S>, t,
               p, six, k);
  }
  check_launch("batch_norm_backward");
}

}  // namespace

void batch_norm_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                         const BatchNormGradient& p) {
  const auto run = [&]<class T, int V>() {
    switch (g.activation.kind) {
      case Activation::relu:
      case Activation::relu6:
        // Without a residual z is computed from x, which is read anyway: each pass reads one tensor
        // less.
        return p.x && (p.dx || !p.y) && !g.residual
                   ? backward<T, V, Slope::x>(context, allocator, g, p)
                   : backward<T, V, Slope::y>(context, allocator, g, p);
      case Activation::hard_swish:
        return backward<T, V, Slope::hard_swish>(context, allocator, g, p);
      case Activation::silu:
        return backward<T, V, Slope::silu>(context, allocator, g, p);
      default:
        return backward<T, V, Slope::one>(context, allocator, g, p);
    }
  };
  with_packs(g.dtype, g.channels, run, p.x, p.y, p.dy, p.more, p.dx, p.dresidual);
}

void batch_norm_gradient_sums(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                              const BatchNormGradient& p, const InputCoefficients& k) {
  const auto run = [&]<class T, int V>() {
    const ChannelLayout t = sums_layout(context, g.rows, g.channels, V);
    if (g.activation.kind == Activation::relu) {
      gradient_sums<T, V, Slope::x>(context, allocator, t, p, false, k);
    } else {
      gradient_sums<T, V, Slope::one>(context, allocator, t, p, false, k);
    }
  };
  with_packs(g.dtype, g.channels, run, p.x, p.dy, p.more, p.dresidual);
}

}  // namespace whisker::cuda::kernels
