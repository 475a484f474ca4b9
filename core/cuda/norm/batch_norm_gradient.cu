// Batch normalisation's gradients in two passes: the first adds up dz and dz (x - mean), the second
// computes dx from these sums, from the last row to the first. Where squeeze-and-excitation scaled
// y, both compute dy from what they are given in its place: see Gate.
#include "core/cuda/norm/normalization.h"
#include "core/cuda/norm/row_pass.cuh"
#include "core/cuda/ops/walk.cuh"

namespace whisker::cuda {
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

/// The activation of hard_swish and silu.
constexpr ActivationSpec curve_of(Slope s) {
  return {s == Slope::silu ? Activation::silu : Activation::hard_swish};
}

struct NoGate {};

/// The gradient is dy factor + addend, rounded once to T. Both operands are read where they are
/// used, not rows ahead: the other rows of an image find them in the L1 cache.
template <class T>
struct Gate {
  const T* factor;  // (images, channels)
  const T* addend;  // (images, channels)
  uint32_t channels;
  Divisors<uint32_t> positions;  // of an image: the only extent

  static Gate of(const BatchNormGeometry& g, const DeviceUnsummedGrads& dy) {
    return {dy.factor.as<const T>(), dy.second.as<const T>(), static_cast<uint32_t>(g.channels),
            Divisors<uint32_t>(1, {g.h * g.w})};
  }
  template <int V>
  __device__ PackBytes<T, V> gradient(const PackBytes<T, V>& dy, int64_t row,
                                      int64_t channel) const {
    const uint32_t image = positions.quotient(static_cast<uint32_t>(row), 0);
    const auto at = static_cast<int64_t>(uint64_t{image} * channels) + channel;
    const PackBytes<T, V> scale = load_pack_bytes<V>(factor, at);
    const PackBytes<T, V> shift = load_pack_bytes<V>(addend, at);
    PackBytes<T, V> result;
    if constexpr (sizeof(result) < 4) {
      result = static_cast<PackBytes<T, V>>(fma_of<T>(dy, scale, shift));
    } else {
      const auto word = [](const auto& bytes, size_t i) {
        return reinterpret_cast<const uint32_t*>(&bytes)[i];
      };
#pragma unroll
      for (size_t i = 0; i < sizeof(result) / 4; ++i) {
        reinterpret_cast<uint32_t*>(&result)[i] =
            fma_of<T>(word(dy, i), word(scale, i), word(shift, i));
      }
    }
    return result;
  }
};

/// The operands of both passes, and the least value that relu6 makes 6; NaN for relu.
struct Gradient {
  DeviceNorm norm;
  DeviceUnsummedGrads dy;
  DeviceNormGrads out;
  float six;
};

/// The tensors that a pass reads (rows, channels): dy always, y where the slope comes from it, the
/// others where they are not null. G is NoGate, or Gate in place of `more`.
template <class T, int V, Slope S, class G>
struct GradientRows {
  static constexpr bool gated = !std::is_same_v<G, NoGate>;
  const T* x;
  const T* y;
  const T* dy;
  const T* more;  // added to dy
  float six;
  G gate;
  int64_t channel;  // the thread's first

  __device__ GradientRows(const Gradient& p, const G& of_dy, int64_t first)
      : x(p.norm.x.as<const T>()),
        y(p.norm.y.as<const T>()),
        dy(p.dy.first.as<const T>()),
        more(p.dy.second.as<const T>()),
        six(p.six),
        gate(of_dy),
        channel(first) {}

  struct Row {
    PackBytes<T, V> x, y, dy, more;
  };
  template <Walk walk>
  __device__ Row load(int64_t at) const {
    Row row;
    load_into<T, V, walk>(row.dy, dy, at);
    load_into<T, V, walk>(row.x, IfGiven<T>{x}, at);
    if constexpr (S == Slope::y) load_into<T, V, walk>(row.y, y, at);
    if constexpr (!gated) load_into<T, V, walk>(row.more, IfGiven<T>{more}, at);
    return row;
  }
  /// dz, rounded to T, and x - center. See Note [relu's gradient and NaN] in
  /// core/reference/activation_functions.h.
  __device__ void read(const RowPosition& position, const Row& row, const NormFactors<V>& f,
                       float (&dz)[V], float (&deviation)[V]) const {
    float in[V], out[V];
    if constexpr (gated) {
      to_floats<T>(gate.template gradient<V>(row.dy, position.row, channel), dz);
    } else {
      to_floats<T>(row.dy, dz);
    }
    to_floats<T>(row.x, in);
    if constexpr (S == Slope::y) to_floats<T>(row.y, out);
    if (!gated && more) {
      float term[V];
      to_floats<T>(row.more, term);
#pragma unroll
      for (int v = 0; v < V; ++v) dz[v] += term[v];
      round(dz);
    }
    constexpr bool is_curve = S == Slope::hard_swish || S == Slope::silu;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      deviation[v] = in[v] - f.center[v];
      const float z = f.z(v, in[v]);
      if constexpr (is_curve) dz[v] = activation_gradient(curve_of(S), z, dz[v]);
      if (S == Slope::x && (z <= Rounds<T>::zero || z >= six)) dz[v] = 0;
      if (S == Slope::y && (out[v] <= 0 || out[v] >= six)) dz[v] = 0;
    }
    if constexpr (is_curve) round(dz);
  }

 private:
  __device__ static void round(float (&values)[V]) {
    const Pack<T, V> pack = rounded<T>(values);
    to_floats<T>(reinterpret_cast<const PackBytes<T, V>&>(pack), values);
  }
};

template <int V, Slope S>
__device__ NormFactors<V> factors_of(const Gradient& p, int64_t channel) {
  const bool centered = p.norm.x.data && p.norm.mean.data;
  return NormFactors<V>::of(p.norm, channel, centered, reads_z(S) || p.out.dx.data, reads_z(S));
}

constexpr int map_blocks = 4;  // of the second pass, per multiprocessor

// sum(dz), sum(dz (x - mean)) and dresidual = dz. x null: only dbeta is computed.
template <class T, int V, Slope S, class G>
__global__ void __launch_bounds__(most_sums_threads)
    gradient_sums_kernel(ChannelLayout t, SumsMemory memory, Gradient p,
                         kernels::InputCoefficients k, G gate) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  const GradientRows<T, V, S, G> in(p, gate, channel);
  auto* dresidual = p.out.dresidual.as<T>();
  NormFactors<V> f;
  const auto prepare = [&] { f = factors_of<V, S>(p, channel); };
  const auto load_row = [&](const RowPosition& position) {
    return in.template load<Walk::chunk>(position.at);
  };
  const auto add = [&](const RowPosition& position, const auto& row, float(&sums)[2][V]) {
    float dz[V], deviation[V];
    in.read(position, row, f, dz, deviation);
    if (dresidual) store_pack<V>(dresidual, position.at, rounded<T>(dz));
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sums[0][v] += dz[v];
      if (in.x) sums[1][v] = fmaf(dz[v], deviation[v], sums[1][v]);
    }
  };
  const auto finish = [&](int64_t c, const auto& sums) {
    const float sum = sums.at[0], correlation = sums.at[1];
    const float inverse = in.x ? p.norm.inv_std.as<float>()[c] : 0;
    const float gamma = k.slope ? load(p.norm.gamma, c) : 0;
    store_parameters(p.out, c, sum, correlation * inverse);
    if (!k.slope) return;
    const ThroughStatistics through(inverse * gamma, inverse, sum, correlation, k.rows);
    k.slope[c] = through.slope;
    k.shift[c] = through.shift;
  };
  channel_sums<V, 2, 5>(t, memory, load_row, prepare, add, finish);
}

// dx = scale dz + (x - mean) slope + shift; without coefficients (constant statistics) scale dz.
// dz is dresidual where the first pass wrote it, else it is recomputed.
template <class T, int V, Slope S, class G>
__global__ void __launch_bounds__(block_threads, V > 1 ? map_blocks : 3)
    input_gradient_kernel(ChannelLayout t, Gradient p, kernels::InputCoefficients k, G gate) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  NormFactors<V> f;
  float slope[V] = {}, shift[V] = {};
  const auto prepare = [&] {
    f = factors_of<V, S>(p, channel);
    if (!k.slope) return;
    load(k.slope, channel, slope);
    load(k.shift, channel, shift);
  };
  const auto* const dz = p.out.dresidual.as<const T>();
  GradientRows<T, V, S, G> in(p, gate, channel);
  in.x = k.slope || reads_z(S) ? in.x : nullptr;
  in.dy = dz ? dz : in.dy;
  in.more = dz ? nullptr : in.more;
  auto* const dx = p.out.dx.as<T>();
  const auto load_row = [&](const RowPosition& position) {
    return in.template load<Walk::reversed_once>(position.at);
  };
  for_rows_reversed<V, 4>(t, load_row, prepare, [&](const RowPosition& position, const auto& row) {
    float d[V], deviation[V];
    in.read(position, row, f, d, deviation);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      d[v] = fmaf(f.scale[v], d[v], shift[v]);
      if (k.slope) d[v] = fmaf(deviation[v], slope[v], d[v]);
    }
    store_pack<V>(dx, position.at, rounded<T>(d));
  });
}

/// Calls run.operator()<T, V, S>(p with `six`, gate) with the types of both passes.
template <class Run>
void with_slope(const BatchNormGeometry& g, Gradient p, const Run& run) {
  const auto with_gate = [&]<class T, int V>(const auto& gate) {
    const auto with = [&]<Slope S>() {
      const float least_six = S == Slope::y ? 6 : Rounds<T>::six;
      p.six = g.activation.kind == Activation::relu6 ? least_six : NAN;
      run.template operator()<T, V, S>(p, gate);
    };
    switch (g.activation.kind) {
      case Activation::relu:
      case Activation::relu6:
        // Without a residual z is computed from x, which is read anyway: each pass reads one tensor
        // less.
        return p.norm.x.data && (p.out.dx.data || !p.norm.y.data) && !g.residual
                   ? with.template operator()<Slope::x>()
                   : with.template operator()<Slope::y>();
      case Activation::hard_swish:
        return with.template operator()<Slope::hard_swish>();
      case Activation::silu:
        return with.template operator()<Slope::silu>();
      default:
        return with.template operator()<Slope::one>();
    }
  };
  const auto with_type = [&]<class T, int pack>() {
    constexpr int V = half_pack(pack);
    p.dy.factor.data ? with_gate.template operator()<T, V>(Gate<T>::of(g, p.dy))
                     : with_gate.template operator()<T, V>(NoGate{});
  };
  with_packs(g.dtype, g.channels, with_type, p.norm.x.data, p.norm.y.data, p.dy.first.data,
             p.dy.second.data, p.dy.factor.data, p.out.dx.data, p.out.dresidual.data);
}

}  // namespace

void kernels::batch_norm_gradient_sums(Context& context, Allocator& allocator,
                                       const BatchNormGeometry& g, const DeviceNorm& norm,
                                       const DeviceUnsummedGrads& dy, const DeviceNormGrads& out,
                                       const InputCoefficients& k) {
  const auto run = [&]<class T, int V, Slope S, class G>(const Gradient& p, const G& gate) {
    launch_sums(context, allocator, sums_layout(context, g.rows, g.channels, V, most_sums_threads),
                gradient_sums_kernel<T, V, S, G>, p, k, gate);
  };
  with_slope(g, {norm, dy, out, NAN}, run);
}

void kernels::batch_norm_input_gradient(Context& context, const BatchNormGeometry& g,
                                        const DeviceNorm& norm, const DeviceUnsummedGrads& dy,
                                        const DeviceNormGrads& out, const InputCoefficients& k) {
  const auto run = [&]<class T, int V, Slope S, class G>(const Gradient& p, const G& gate) {
    const auto launch = [&](auto kernel, const auto& of_dy) {
      launch_map<V>(context, sums_layout(context, g.rows, g.channels, V, most_sums_threads),
                    map_blocks, kernel, p, k, of_dy);
    };
    out.dresidual.data ? launch(input_gradient_kernel<T, V, Slope::one, NoGate>, NoGate{})
                       : launch(input_gradient_kernel<T, V, S, G>, gate);
  };
  with_slope(g, {norm, dy, out, NAN}, run);
}

void Normalization::batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                                        const UnsummedGrads& dy, const NormGrads& grads) {
  context_.enter();
  const DeviceNorm norm = device_norm(saved);
  const DeviceUnsummedGrads unsummed = dy.map(operand);
  const DeviceNormGrads out = grads.map(operand);
  const Scratch coefficients(allocator_, 2 * g.channels * int64_t{sizeof(float)});
  kernels::InputCoefficients k;
  if (out.dx.data && g.training) {
    k = {.slope = coefficients.as<float>(),
         .shift = coefficients.as<float>() + g.channels,
         .rows = static_cast<float>(g.rows)};
  }
  if (k.slope || out.dgamma.data || out.dbeta.data || out.dresidual.data) {
    kernels::batch_norm_gradient_sums(context_, allocator_, g, norm, unsummed, out, k);
  }
  if (out.dx.data) kernels::batch_norm_input_gradient(context_, g, norm, unsummed, out, k);
}

}  // namespace whisker::cuda
