// The strip kernels of pooling (core/cuda/ops/pooling_strips.cuh) fused with a batch norm.
// Forward: compare x, with its sign flipped where gamma is below 0, and normalise only the maxima.
// Backward: the norm's own first pass over x_at_argmax computes dz of the windows and the sums;
// then a strip kernel gathers dz as pooling does and computes dx from dz and x.
#include "core/backend/fused_ops.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/norm/row_pass.cuh"
#include "core/cuda/ops/pooling.cuh"
#include "core/cuda/ops/pooling_strips.cuh"

namespace whisker::cuda {
namespace {

/// f32 values of a thread's N channels, `Kinds` for each, in the thread's own column of shared
/// memory, which leaves registers to pending loads. Volatile: the compiler would keep copies.
template <int Kinds, int N>
struct ChannelTable {
  __device__ static volatile float& at(int kind, int channel) {
    __shared__ volatile float values[Kinds * N][block_threads];
    return values[kind * N + channel][threadIdx.x];
  }
  /// Stores the values of channels from `first` on.
  template <int Count>
  __device__ static void keep(int kind, const float (&values)[Count], int first = 0) {
#pragma unroll
    for (int v = 0; v < Count; ++v) at(kind, first + v) = values[v];
  }
};

/// What strip_max_kernel does with maxima: stores y = f(normalised maximum), x_at_argmax and
/// argmax.
template <class T, int N>
struct NormalisedMaxima {
  static constexpr int blocks = 3;
  enum Kind { center, scale, shift, kinds };
  using Table = ChannelTable<kinds, N>;

  DeviceNorm norm;
  bool relu;
  Pack<T, N>* y;
  Pack<T, N>* x_at_argmax;
  Pack<uint8_t, N>* argmax;

  struct OfChannels {
    const NormalisedMaxima& result;
    Packed<T, N> sign = Packed<T, N>::filled(0);  // flipped where z falls as x grows

    __device__ Packed<T, N> compared(const Packed<T, N>& x) const {
      Packed<T, N> turned;
#pragma unroll
      for (int i = 0; i < Packed<T, N>::count; ++i) turned.at[i] = x.at[i] ^ sign.at[i];
      return turned;
    }
    __device__ void store(int64_t at, LargestSoFar<T, N> largest) const {
      const float lowest = result.relu ? 0 : -INFINITY;
      largest.value = compared(largest.value);
      Packed<T, N> normal;
#pragma unroll
      for (int i = 0; i < Packed<T, N>::count; ++i) {
        normal.at[i] = mapped<T, N>(i, [&](int e, int v) {
          const float z = normalised(element<T>(largest.value.at[i], e), Table::at(center, v),
                                     Table::at(scale, v), Table::at(shift, v));
          return z < lowest ? lowest : z;
        });
      }
      store_packed(result.y + at, normal);
      if (result.x_at_argmax) largest.store(result.x_at_argmax + at, result.argmax + at);
    }
  };
  __device__ OfChannels of_channels(int pack) const {
    const auto f = NormFactors<N>::of(norm, int64_t{pack} * N);
    OfChannels own{.result = *this};
    Table::keep(center, f.center);
    Table::keep(scale, f.scale);
    Table::keep(shift, f.shift);
#pragma unroll
    for (int v = 0; v < N; ++v) {
      if (f.scale[v] < 0) own.sign.at[v / per_word<T, N>] |= sign_bit<T>(v % per_word<T, N>);
    }
    return own;
  }
};

/// What strip_gradient_kernel does with dz: stores dx = scale dz + (x - mean) slope + shift.
template <class T, int N>
struct NormalisedGradient {
  static constexpr int blocks = 3;
  enum Kind { center, scale, slope, shift, kinds };
  using Table = ChannelTable<kinds, N>;

  DeviceNorm norm;
  kernels::InputCoefficients coefficients;
  Pack<T, N>* dx;

  struct OfChannels {
    const NormalisedGradient& result;

    struct Read {
      Packed<T, N> x[4];
      int64_t at[4];
      bool inside[4];
    };
    template <class Inside, class At>
    __device__ Read read(const Inside& inside, const At& at) const {
      const auto* x = result.norm.x.template as<const Pack<T, N>>();
      Read loaded;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        loaded.at[e] = at(e);
        loaded.inside[e] = inside(e);
        loaded.x[e] = loaded.inside[e] ? load_packed(x + loaded.at[e]) : Packed<T, N>::filled(0);
      }
      return loaded;
    }
    // Word by word: per-channel factors are read once for four elements.
    template <class Inside, class At, class Gathered>
    __device__ void store(Read read, const Inside&, const At&, const Gathered& gathered) const {
#pragma unroll
      for (int i = 0; i < Packed<T, N>::count; ++i) {
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
            return two_terms(element<T>(x, e) - factors[center][e], factors[slope][e],
                             element<T>(dz, e), factors[scale][e], factors[shift][e]);
          });
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (read.inside[e]) store_packed(result.dx + read.at[e], read.x[e]);
      }
    }
  };
  __device__ OfChannels of_channels(int pack) const {
    constexpr int together = N > 1 ? N / 2 : 1;  // all of them would not fit 80 registers
#pragma unroll 1
    for (int first = 0; first < N; first += together) {
      const int64_t channel = int64_t{pack} * N + first;
      const auto f = NormFactors<together>::of(norm, channel, true, true, false);
      Table::keep(center, f.center, first);
      Table::keep(scale, f.scale, first);
#pragma unroll
      for (int v = 0; v < together; ++v) {
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

class NormPool final : public FusedNormPool, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void normalise(const TrainingNorm& norm, const PoolArgmax& argmax, const Tensor& y) override {
    context_.enter();
    kernels::batch_norm_statistics(context_, allocator_, norm);
    const DeviceNorm p = device_norm(norm);
    const Operand x_at_argmax = operand(argmax.x), positions = operand(argmax.positions);
    const auto run = [&]<class T, int N>(const PoolShape& shape) {
      const StripLaunch launch = strip_launch(context_, shape, shape.h_out, shape.w_out);
      visit_window(argmax.geometry, [&]<int K>() {
        using Result = NormalisedMaxima<T, N>;
        launch_pdl(context_, launch.blocks.grid, launch.blocks.block,
                   strip_max_kernel<T, N, K, 2, Result>, shape, launch.strip,
                   p.x.as<const Pack<T, N>>(),
                   Result{.norm = p,
                          .relu = norm.geometry.activation.kind == Activation::relu,
                          .y = static_cast<Pack<T, N>*>(y.raw()),
                          .x_at_argmax = x_at_argmax.as<Pack<T, N>>(),
                          .argmax = positions.as<Pack<uint8_t, N>>()});
      });
    };
    visit_packed(argmax.geometry, run, positions.data, p.x.data, y.raw(), x_at_argmax.data);
  }

  void backward(const TrainingNorm& norm, const PoolArgmax& argmax, const UnsummedGrads& dy,
                const NormGrads& gradients) override {
    context_.enter();
    const Pool2dGeometry& pool = argmax.geometry;
    BatchNormGeometry windows = norm.geometry;
    windows.rows = pool.n * pool.h_out * pool.w_out;
    const DeviceNorm p = device_norm(norm);
    DeviceNorm of_windows = p;
    of_windows.x = operand(argmax.x);
    DeviceNormGrads out = gradients.map(operand);
    const Scratch dz(allocator_, out.dx.data ? argmax.x.bytes() : 0);  // (N, h_out, w_out, C)
    const Scratch memory(allocator_, 2 * windows.channels * int64_t{sizeof(float)});
    kernels::InputCoefficients coefficients;
    if (out.dx.data) {
      coefficients = {.slope = memory.as<float>(),
                      .shift = memory.as<float>() + windows.channels,
                      .rows = static_cast<float>(norm.geometry.rows)};
      out.dresidual = {dz.data(), windows.dtype};
    }
    // Only the maxima have a dz other than 0, so sums over them are sums over all elements.
    kernels::batch_norm_gradient_sums(context_, allocator_, windows, of_windows, dy.map(operand),
                                      out, coefficients);
    if (!out.dx.data) return;
    const auto* const positions = argmax.positions.raw();
    const auto run = [&]<class T, int N>(const PoolShape& shape) {
      const int down = (shape.h + shape.pad_top + 1) / 2;
      const int across = (shape.w + shape.pad_left + 1) / 2;
      const StripLaunch launch = strip_launch(context_, shape, down, across);
      visit_window(pool, [&]<int K>() {
        using Result = NormalisedGradient<T, N>;
        launch_pdl(context_, launch.blocks.grid, launch.blocks.block,
                   strip_gradient_kernel<T, N, K, Result>, shape, down, across, launch.strip,
                   static_cast<const Pack<uint8_t, N>*>(positions), dz.as<const Pack<T, N>>(),
                   Result{.norm = p, .coefficients = coefficients, .dx = out.dx.as<Pack<T, N>>()});
      });
    };
    visit_packed(pool, run, positions, p.x.data, dz.data(), out.dx.data);
  }
};

}  // namespace

std::shared_ptr<FusedNormPool> make_fused_norm_pool(CudaDevice& device) {
  return std::make_shared<NormPool>(device);
}

}  // namespace whisker::cuda
