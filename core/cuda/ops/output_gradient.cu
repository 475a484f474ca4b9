// y = f(y + b + residual), dz = f'(y) dy and db over rows of channels; and dz and db behind 2x2
// max-pooling, from the gradient of windows and their argmax.
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/ops/channel_sums.cuh"
#include "core/cuda/ops/launchers.h"

namespace whisker::cuda {
namespace {

template <class T, int N>
__global__ void bias_activation_kernel(int64_t packs, int64_t packs_per_row, ActivationSpec f,
                                       const T* b, const T* residual, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < packs; at += step) {
    Pack<T, N> value = load_pack<N>(y, at * N);
    Pack<T, N> bias{}, added{};
    if (residual) added = load_pack<N>(residual, at * N);
    if (b) bias = load_pack<N>(b, at % packs_per_row * N);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float z = to_f32(value.at[i]);
      if (b) z += to_f32(bias.at[i]);
      if (residual) z += to_f32(added.at[i]);
      value.at[i] = from_f32<T>(activate(f, z));
    }
    store_pack<N>(y, at * N, value);
  }
}

/// f' of no activation, of relu and of the others.
enum class Slope { one, relu, other };

/// y and dy of one pack; y is not read without an activation.
template <class T, int N, Slope slope>
struct Gradient {
  PackBytes<T, N> y, dy;

  __device__ static Gradient load(const T* y, const T* dy, int64_t at) {
    Gradient loaded;
    loaded.dy = load_pack_bytes<N>(dy, at);
    if constexpr (slope != Slope::one) loaded.y = load_pack_bytes<N>(y, at);
    return loaded;
  }
  /// f'(y) dy, also added to `sum`. relu masks bits: one instruction per two elements, no rounding.
  __device__ Pack<T, N> through(ActivationSpec f, float (&sum)[N]) const {
    const auto gradient = unpack<T, N>(dy);
    Pack<T, N> result = gradient;
    if constexpr (slope == Slope::one || (slope == Slope::relu && N > 1)) {
      if constexpr (slope == Slope::relu) {
        const auto output = unpack<T, N>(y);
#pragma unroll
        for (int i = 0; i < 4; ++i) word(result, i) &= not_below_or_zero<T>(word(output, i));
      }
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += to_f32(result.at[i]);
    } else {
      const auto output = unpack<T, N>(y);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float d = activation_gradient(f, to_f32(output.at[i]), to_f32(gradient.at[i]));
        sum[i] += d;
        result.at[i] = from_f32<T>(d);
      }
    }
    return result;
  }
};

/// channel_sums of one sum, stored as `db` unless that is null.
template <class T, int N, int Ahead, class Load, class Add>
__device__ void bias_sums(const ChannelLayout& t, const SumsMemory& memory, T* db, const Load& load,
                          const Add& add) {
  const auto finish = [&](int64_t c, const auto& sum) {
    if (db) db[c] = from_f32<T>(sum.at[0]);
  };
  channel_sums<N, 1, Ahead>(
      t, memory, load, [] {}, add, finish);
}

/// dz may be null.
template <class T, int N, Slope slope>
__global__ void __launch_bounds__(most_sums_threads)
    output_gradient_kernel(ChannelLayout t, SumsMemory memory, ActivationSpec f, const T* y,
                           const T* dy, T* dz, T* db) {
  wait_for_previous();
  using Loaded = Gradient<T, N, slope>;
  bias_sums<T, N, (slope == Slope::one ? 4 : 2)>(
      t, memory, db, [&](const RowPosition& position) { return Loaded::load(y, dy, position.at); },
      [&](const RowPosition& position, const Loaded& loaded, float(&sum)[1][N]) {
        const Pack<T, N> result = loaded.through(f, sum[0]);
        if (dz) store_pack<N>(dz, position.at, result);
      });
}

/// Extents of an image and of its 2x2 windows.
struct Halves {
  unsigned h, w, h_half, w_half;
};

/// Rows are windows: dz (N, h, w, channels) is the window's gradient at its argmax and 0 elsewhere,
/// including an odd last row and column outside all windows.
template <class T, int N, Slope slope>
__global__ void __launch_bounds__(most_sums_threads)
    window_gradient_kernel(ChannelLayout t, SumsMemory memory, Halves p, ActivationSpec f,
                           const T* y, const T* dy, const uint8_t* argmax, T* dz, T* db) {
  wait_for_previous();
  struct Window {
    Gradient<T, N, slope> values;
    Pack<uint8_t, N> argmax;
  };
  const int64_t channel = own_channel<N>(t);
  const auto load = [&](const RowPosition& position) {
    return Window{Gradient<T, N, slope>::load(y, dy, position.at),
                  *reinterpret_cast<const Pack<uint8_t, N>*>(argmax + position.at)};
  };
  const auto use = [&](const RowPosition& position, const Window& loaded, float(&sum)[1][N]) {
    const Pack<T, N> result = loaded.values.through(f, sum[0]);
    const auto window = static_cast<unsigned>(position.row);
    const unsigned j = window % p.w_half, i = window / p.w_half % p.h_half;
    const unsigned image = window / p.w_half / p.h_half;
    const auto element = [&](unsigned down, unsigned across) -> Pack<T, N>& {
      const int64_t to = (int64_t{image} * p.h + 2 * i + down) * p.w + 2 * j + across;
      return *reinterpret_cast<Pack<T, N>*>(dz + to * t.channels + channel);
    };
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      element(k / 2, k % 2) = where_argmax<T, N>(result, loaded.argmax, k);
    }
    const bool last_row = i + 1 == p.h_half && p.h % 2 == 1;
    const bool last_column = j + 1 == p.w_half && p.w % 2 == 1;
    const Pack<T, N> zero{};
    if (last_row) element(2, 0) = element(2, 1) = zero;
    if (last_column) element(0, 2) = element(1, 2) = zero;
    if (last_row && last_column) element(2, 2) = zero;
  };
  bias_sums<T, N, 2>(t, memory, db, load, use);
}

/// Calls launch.operator()<T, N, slope>(layout) for rows of channels at `pointers`.
template <class Launch, class... P>
void with_slope(const RowsGeometry& g, ActivationSpec f, const Context& context,
                const Launch& launch, const P*... pointers) {
  const auto run = [&]<class T, int N>() {
    const ChannelLayout t = sums_layout(context, g.rows, g.channels, N, most_sums_threads);
    if (f.kind == Activation::none) return launch.template operator()<T, N, Slope::one>(t);
    if (f.kind == Activation::relu) return launch.template operator()<T, N, Slope::relu>(t);
    launch.template operator()<T, N, Slope::other>(t);
  };
  with_packs(g.dtype, g.channels, run, pointers...);
}

}  // namespace

void bias_activation(const RowsGeometry& g, ActivationSpec f, const void* b, const void* residual,
                     void* y, cudaStream_t stream) {
  if (!b && !residual && f.kind == Activation::none) return;
  const auto run = [&]<class T, int N>() {
    const int64_t packs = g.rows * g.channels / N;
    launch_kernel(stream, "bias and activation", grid_for(packs), bias_activation_kernel<T, N>,
                  packs, g.channels / N, f, b, residual, y);
  };
  with_packs(g.dtype, g.channels, run, b, residual, y);
}

void output_gradient(const RowsGeometry& g, ActivationSpec f, const void* y, const void* dy,
                     void* dz, void* db, Context& context, Allocator& allocator) {
  if (!dz && !db) return;
  const void* const output = f.kind == Activation::none ? nullptr : y;
  const auto launch = [&]<class T, int N, Slope slope>(const ChannelLayout& t) {
    launch_sums<1>(context, allocator, t, output_gradient_kernel<T, N, slope>, f, output, dy, dz,
                   db);
  };
  with_slope(g, f, context, launch, output, dy, dz);
}

void window_gradient(const Pool2dGeometry& p, ActivationSpec f, const void* y, const void* dy,
                     const void* argmax, void* dz, void* db, Context& context,
                     Allocator& allocator) {
  const RowsGeometry g{.rows = p.n * p.h_out * p.w_out, .channels = p.c, .dtype = p.dtype};
  const Halves halves{.h = static_cast<unsigned>(p.h),
                      .w = static_cast<unsigned>(p.w),
                      .h_half = static_cast<unsigned>(p.h_out),
                      .w_half = static_cast<unsigned>(p.w_out)};
  const void* const output = f.kind == Activation::none ? nullptr : y;
  const auto launch = [&]<class T, int N, Slope slope>(const ChannelLayout& t) {
    launch_sums<1>(context, allocator, t, window_gradient_kernel<T, N, slope>, halves, f, output,
                   dy, argmax, dz, db);
  };
  with_slope(g, f, context, launch, output, dy, argmax, dz);
}

}  // namespace whisker::cuda
