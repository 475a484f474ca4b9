// y = f(y + b + residual), dz = f'(y) dy and db over rows of channels
// (core/cuda/device_code/many_channel_sums.cuh); and dz and db behind 2x2 max-pooling, from the
// gradient of windows and their argmax.
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/many_channel_sums.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/runtime/check.h"

#include <optional>

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

  __device__ static Gradient load(const T* y, const T* dy, int64_t pack) {
    Gradient loaded;
    loaded.dy = load_pack_bytes<N>(dy, pack * N);
    if constexpr (slope != Slope::one) loaded.y = load_pack_bytes<N>(y, pack * N);
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

/// dz may be null.
template <class T, int N, Slope slope>
__global__ void __launch_bounds__(block_threads, 3)
    output_gradient_kernel(ChannelSums<T> g, ActivationSpec f, const T* __restrict__ y,
                           const T* __restrict__ dy, T* __restrict__ dz) {
  using Loaded = Gradient<T, N, slope>;
  many_channel_sums<T, N, (slope == Slope::one ? 4 : 2)>(
      g, [&](int64_t row, int64_t pack) { return Loaded::load(y, dy, row * g.packs + pack); },
      [&](int64_t row, int64_t pack, const Loaded& loaded, float(&sum)[N]) {
        const Pack<T, N> result = loaded.through(f, sum);
        if (dz) store_pack<N>(dz, (row * g.packs + pack) * N, result);
      });
}

/// Extents of an image and of its 2x2 windows.
struct Halves {
  unsigned h, w, h_half, w_half;
};

/// Rows are windows: dz (N, h, w, channels) is the window's gradient at its argmax and 0 elsewhere,
/// including an odd last row and column outside all windows.
template <class T, int N, Slope slope>
__global__ void __launch_bounds__(block_threads, 3)
    window_gradient_kernel(ChannelSums<T> g, Halves p, ActivationSpec f, const T* __restrict__ y,
                           const T* __restrict__ dy, const uint8_t* __restrict__ argmax,
                           T* __restrict__ dz) {
  struct Window {
    Gradient<T, N, slope> values;
    Pack<uint8_t, N> argmax;
  };
  const auto load = [&](int64_t row, int64_t pack) {
    const int64_t at = row * g.packs + pack;
    return Window{Gradient<T, N, slope>::load(y, dy, at),
                  reinterpret_cast<const Pack<uint8_t, N>*>(argmax)[at]};
  };
  many_channel_sums<T, N, 2>(
      g, load, [&](int64_t row, int64_t pack, const Window& loaded, float(&sum)[N]) {
        const Pack<T, N> result = loaded.values.through(f, sum);
        const auto window = static_cast<unsigned>(row);
        const unsigned j = window % p.w_half, i = window / p.w_half % p.h_half;
        const unsigned image = window / p.w_half / p.h_half;
        const auto element = [&](unsigned down, unsigned across) -> Pack<T, N>& {
          const int64_t to = (int64_t{image} * p.h + 2 * i + down) * p.w + 2 * j + across;
          return reinterpret_cast<Pack<T, N>*>(dz)[to * g.packs + pack];
        };
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          element(k / 2, k % 2) = where_argmax<T, N>(result, loaded.argmax, k);
        }
        Pack<T, N> zero;
#pragma unroll
        for (int c = 0; c < N; ++c) zero.at[c] = from_f32<T>(0.0f);
        const bool last_row = i + 1 == p.h_half && p.h % 2 == 1;
        const bool last_column = j + 1 == p.w_half && p.w % 2 == 1;
        if (last_row) element(2, 0) = element(2, 1) = zero;
        if (last_column) element(0, 2) = element(1, 2) = zero;
        if (last_row && last_column) element(2, 2) = zero;
      });
}

/// Calls launch.operator()<T, N, slope>(channel_sums, how) with memory for sums into `db` (null: no
/// sums); `pointers` are the other rows of channels.
template <class Launch, class... P>
void with_sums(const RowsGeometry& g, ActivationSpec f, void* db, Context& context,
               Allocator& allocator, const Launch& launch, const P*... pointers) {
  const auto run = [&]<class T, int N>() {
    const int64_t packs = g.channels / N;
    constexpr unsigned cache_line = 128 / (sizeof(T) * N);  // in packs
    const ChannelSumsLaunch how =
        channel_sums_launch(g.rows, packs, N, context.multiprocessors(), std::min(cache_line, 32u));
    std::optional<Scratch> memory;
    if (db && how.sums_bytes > 0) memory.emplace(allocator, how.sums_bytes);
    const ChannelSums<T> sums{.rows = g.rows,
                              .packs = packs,
                              .sums = memory ? memory->as<float>() : nullptr,
                              .result = static_cast<T*>(db),
                              .tickets = context.tickets()};
    if (f.kind == Activation::none) return launch.template operator()<T, N, Slope::one>(sums, how);
    if (f.kind == Activation::relu) return launch.template operator()<T, N, Slope::relu>(sums, how);
    launch.template operator()<T, N, Slope::other>(sums, how);
  };
  with_packs(g.dtype, g.channels, run, db, pointers...);
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
  const auto launch = [&]<class T, int N, Slope slope>(const ChannelSums<T>& sums,
                                                       const ChannelSumsLaunch& how) {
    launch_kernel(context.stream(), "output gradient", {how.grid, how.block, how.shared_bytes},
                  output_gradient_kernel<T, N, slope>, sums, f, output, dy, dz);
  };
  with_sums(g, f, db, context, allocator, launch, output, dy, dz);
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
  const auto launch = [&]<class T, int N, Slope slope>(const ChannelSums<T>& sums,
                                                       const ChannelSumsLaunch& how) {
    launch_kernel(context.stream(), "window gradient", {how.grid, how.block, how.shared_bytes},
                  window_gradient_kernel<T, N, slope>, sums, halves, f, output, dy, argmax, dz);
  };
  with_sums(g, f, db, context, allocator, launch, output, dy, argmax, dz);
}

}  // namespace whisker::cuda
