// Depthwise convolution, one filter per channel, in NHWC: square kernels of 3, 5 and 7, strides of
// 1 and 2. It is bound by memory, so threads read packs of adjacent channels and reuse them for
// several outputs. Sums are f32 in a fixed order: results are deterministic.
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <utility>

namespace whisker::cuda {
namespace {

// Outputs of a row that a thread computes.
constexpr int tile = 4;

/// How a block's threads divide packs of channels and tiles of positions: thread t has pack t %
/// lanes, position t / lanes.
struct Split {
  int lanes = 1;      // packs per block
  int chunks = 1;     // blocks along the channels
  int positions = 1;  // per block
};

Split split_channels(int64_t packs, int most_lanes) {
  Split s;
  s.chunks = static_cast<int>((packs + most_lanes - 1) / most_lanes);
  s.lanes = static_cast<int>((packs + s.chunks - 1) / s.chunks);
  s.positions = block_threads / s.lanes;
  return s;
}

/// Filters of a block's channels in shared memory, f32: [tap][channel]. `flip` turns them around.
template <class T, int K, bool flip>
__device__ void load_filters(const T* w, int64_t first_channel, int64_t channels, int width,
                             float* filters) {
  for (int at = static_cast<int>(threadIdx.x); at < K * K * width; at += block_threads) {
    const int tap = at / width;
    const int64_t c = first_channel + at % width;
    const int from = flip ? K * K - 1 - tap : tap;
    filters[at] = c < channels ? to_f32(w[c * K * K + from]) : 0.0f;
  }
  __syncthreads();
}

/// y (N, h_out, w_out, C) = f(x (N,H,W,C) * w (C,K,K,1) + b). With `flip` the filters are turned
/// around: the gradient of x for a stride of 1. A thread: `tile` adjacent columns of one pack.
template <class T, int K, int S, bool flip>
__global__ void __launch_bounds__(block_threads)
    forward_kernel(Conv2dGeometry g, Split split, const T* x, const T* w, const T* b, T* y) {
  constexpr int N = pack_size<T>;
  extern __shared__ float filters[];
  const int width = split.lanes * N;
  const int64_t first_channel = int64_t{blockIdx.y} * width;
  load_filters<T, K, flip>(w, first_channel, g.c, width, filters);
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int64_t channel = first_channel + lane * N;
  if (slot >= split.positions || channel >= g.c) return;
  const int64_t tiles = (g.w_out + tile - 1) / tile, count = g.n * g.h_out * tiles;
  const int64_t step = int64_t{gridDim.x} * split.positions;
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; at < count; at += step) {
    const int64_t first = at % tiles * tile, i = at / tiles % g.h_out, n = at / (tiles * g.h_out);
    float sums[tile][N] = {};
    for (int p = 0; p < K; ++p) {
      const int64_t row = i * S - g.pad_top + p;
      if (row < 0 || row >= g.h) continue;
      float taps[K][N];
#pragma unroll
      for (int q = 0; q < K; ++q) {
#pragma unroll
        for (int v = 0; v < N; ++v) taps[q][v] = filters[(p * K + q) * width + lane * N + v];
      }
      const T* const in = x + (n * g.h + row) * g.w * g.c + channel;
      const int64_t left = first * S - g.pad_left;
#pragma unroll
      for (int u = 0; u < (tile - 1) * S + K; ++u) {
        const int64_t column = left + u;
        if (column < 0 || column >= g.w) continue;
        const auto pack = *reinterpret_cast<const Pack<T, N>*>(in + column * g.c);
#pragma unroll
        for (int t = 0; t < tile; ++t) {
          const int q = u - t * S;
          if (q < 0 || q >= K) continue;
#pragma unroll
          for (int v = 0; v < N; ++v) sums[t][v] += to_f32(pack.at[v]) * taps[q][v];
        }
      }
    }
    T* const out = y + ((n * g.h_out + i) * g.w_out + first) * g.c + channel;
#pragma unroll
    for (int t = 0; t < tile; ++t) {
      if (first + t >= g.w_out) continue;
      Pack<T, N> pack;
#pragma unroll
      for (int v = 0; v < N; ++v) {
        const float z = sums[t][v] + (b ? to_f32(b[channel + v]) : 0.0f);
        pack.at[v] = from_f32<T>(activate(g.activation, z));
      }
      *reinterpret_cast<Pack<T, N>*>(out + t * g.c) = pack;
    }
  }
}

/// dx (N,H,W,C) from w and dy (N, h_out, w_out, C), stride 2. A thread: `tile` adjacent columns of
/// one pack; each element of dy that it reads meets the columns of its parity.
template <class T, int K>
__global__ void __launch_bounds__(block_threads)
    backward_input_kernel(Conv2dGeometry g, Split split, const T* w, const T* dy, T* dx) {
  constexpr int N = pack_size<T>;
  extern __shared__ float filters[];
  const int width = split.lanes * N;
  const int64_t first_channel = int64_t{blockIdx.y} * width;
  load_filters<T, K, false>(w, first_channel, g.c, width, filters);
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int64_t channel = first_channel + lane * N;
  if (slot >= split.positions || channel >= g.c) return;
  const int64_t tiles = (g.w + tile - 1) / tile, count = g.n * g.h * tiles;
  const int64_t step = int64_t{gridDim.x} * split.positions;
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; at < count; at += step) {
    const int64_t first = at % tiles * tile, row = at / tiles % g.h, n = at / (tiles * g.h);
    float sums[tile][N] = {};
    // Column t meets tap q of output j where first + t + pad = 2 j + q.
    const int64_t base = first + g.pad_left;
    const int64_t first_output = base >= K ? (base - K + 2) / 2 : 0;
    const int64_t end_output = min((base + tile - 1) / 2 + 1, g.w_out);
    for (int p = static_cast<int>((row + g.pad_top) & 1); p < K; p += 2) {
      const int64_t i = (row + g.pad_top - p) / 2;
      if (row + g.pad_top < p || i >= g.h_out) continue;
      const T* const in = dy + (n * g.h_out + i) * g.w_out * g.c + channel;
      for (int64_t j = first_output; j < end_output; ++j) {
        const auto pack = *reinterpret_cast<const Pack<T, N>*>(in + j * g.c);
#pragma unroll
        for (int t = 0; t < tile; ++t) {
          const int q = static_cast<int>(base + t - 2 * j);
          if (q < 0 || q >= K) continue;
          const float* const filter = filters + (p * K + q) * width + lane * N;
#pragma unroll
          for (int v = 0; v < N; ++v) sums[t][v] += to_f32(pack.at[v]) * filter[v];
        }
      }
    }
    T* const out = dx + ((n * g.h + row) * g.w + first) * g.c + channel;
#pragma unroll
    for (int t = 0; t < tile; ++t) {
      if (first + t >= g.w) continue;
      Pack<T, N> pack;
#pragma unroll
      for (int v = 0; v < N; ++v) pack.at[v] = from_f32<T>(sums[t][v]);
      *reinterpret_cast<Pack<T, N>*>(out + t * g.c) = pack;
    }
  }
}

/// Channels per thread of the weights' gradient: each has K x K sums in registers.
constexpr int weight_lanes = 2;

/// partial (slices, K K, C), f32: sums of x dy over the rows of y that a slice (blockIdx.x) has. A
/// thread: two channels, rows slot, slot + positions, ...; the block then adds its slots in order.
template <class T, int K, int S>
__global__ void __launch_bounds__(block_threads)
    backward_weights_kernel(Conv2dGeometry g, Split split, const T* x, const T* dy,
                            float* partial) {
  constexpr int N = weight_lanes;
  extern __shared__ float totals[];
  const int width = split.lanes * N;
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int64_t first_channel = int64_t{blockIdx.y} * width;
  const int64_t channel = first_channel + lane * N;
  const bool works = slot < split.positions && channel < g.c;
  float sums[K][K][N] = {};
  const int64_t rows = g.n * g.h_out, step = int64_t{gridDim.x} * split.positions;
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; works && at < rows; at += step) {
    const int64_t i = at % g.h_out, n = at / g.h_out;
    const T* const gradient = dy + at * g.w_out * g.c + channel;
    for (int64_t first = 0; first < g.w_out; first += tile) {
      float from[tile][N];
#pragma unroll
      for (int t = 0; t < tile; ++t) {
        Pack<T, N> pack{};
        if (first + t < g.w_out) {
          pack = *reinterpret_cast<const Pack<T, N>*>(gradient + (first + t) * g.c);
        }
#pragma unroll
        for (int v = 0; v < N; ++v) from[t][v] = first + t < g.w_out ? to_f32(pack.at[v]) : 0.0f;
      }
      const int64_t left = first * S - g.pad_left;
#pragma unroll
      for (int p = 0; p < K; ++p) {
        const int64_t row = i * S - g.pad_top + p;
        if (row < 0 || row >= g.h) continue;
        const T* const in = x + (n * g.h + row) * g.w * g.c + channel;
#pragma unroll
        for (int u = 0; u < (tile - 1) * S + K; ++u) {
          const int64_t column = left + u;
          if (column < 0 || column >= g.w) continue;
          const auto pack = *reinterpret_cast<const Pack<T, N>*>(in + column * g.c);
#pragma unroll
          for (int t = 0; t < tile; ++t) {
            const int q = u - t * S;
            if (q < 0 || q >= K) continue;
#pragma unroll
            for (int v = 0; v < N; ++v) sums[p][q][v] += to_f32(pack.at[v]) * from[t][v];
          }
        }
      }
    }
  }
  for (int turn = 0; turn < split.positions; ++turn) {
    if (slot == turn) {
#pragma unroll
      for (int p = 0; p < K; ++p) {
#pragma unroll
        for (int q = 0; q < K; ++q) {
#pragma unroll
          for (int v = 0; v < N; ++v) {
            float& total = totals[(p * K + q) * width + lane * N + v];
            total = turn == 0 ? sums[p][q][v] : total + sums[p][q][v];
          }
        }
      }
    }
    __syncthreads();
  }
  float* const slice = partial + int64_t{blockIdx.x} * K * K * g.c;
  for (int at = static_cast<int>(threadIdx.x); at < K * K * width; at += block_threads) {
    const int64_t c = first_channel + at % width;
    if (c < g.c) slice[at / width * g.c + c] = totals[at];
  }
}

/// dw (C, taps) = the sums of partial (slices, taps, C) over the slices.
template <class T>
__global__ void add_slices_kernel(const float* partial, int slices, int64_t taps, int64_t channels,
                                  T* dw) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= taps * channels) return;
  float sum = 0;
  for (int slice = 0; slice < slices; ++slice) sum += partial[slice * taps * channels + at];
  dw[at % channels * taps + at / channels] = from_f32<T>(sum);
}

/// Calls fn.template operator()<K, S>() with the kernel and stride of `g`.
template <class Fn>
void visit_window(const Conv2dGeometry& g, Fn&& fn) {
  const auto with_stride = [&]<int K>() {
    return g.stride_h == 1 ? fn.template operator()<K, 1>() : fn.template operator()<K, 2>();
  };
  if (g.kernel_h == 3) return with_stride.template operator()<3>();
  if (g.kernel_h == 5) return with_stride.template operator()<5>();
  return with_stride.template operator()<7>();
}

class DepthwiseConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwiseConvolution(const ConvolutionRequest& request, const ConvolutionSite& site)
      : request_(request) {
    const Conv2dGeometry& g = request.geometry;
    if (request.pass != ConvolutionPass::backward_weights) return;
    split_ = split_channels(g.c / weight_lanes, 32);
    const int64_t rows = g.n * g.h_out, per_block = split_.positions;
    slices_ = static_cast<int>(std::clamp<int64_t>(
        int64_t{4} * site.multiprocessors / split_.chunks, 1, (rows + per_block - 1) / per_block));
  }
  std::string name() const override { return std::string(depthwise_name); }
  int64_t workspace_bytes() const override {
    const Conv2dGeometry& g = request_.geometry;
    return int64_t{slices_} * g.kernel_h * g.kernel_w * g.c * static_cast<int64_t>(sizeof(float));
  }

  void run(const ConvolutionSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    visit_real(request_.geometry.dtype, [&]<class T>() {
      visit_window(request_.geometry,
                   [&]<int K, int S>() { run_as<T, K, S>(site, operands, workspace); });
    });
    check_launch("depthwise convolution");
  }

 private:
  template <class T, int K, int S>
  void run_as(const ConvolutionSite& site, const ConvolutionOperands& operands,
              void* workspace) const {
    const Conv2dGeometry& g = request_.geometry;
    T* const x = static_cast<T*>(operands.x);
    T* const w = static_cast<T*>(operands.w);
    T* const y = static_cast<T*>(operands.y);
    if (request_.pass == ConvolutionPass::backward_weights) {
      const auto shared = static_cast<size_t>(K * K * split_.lanes * weight_lanes) * sizeof(float);
      const dim3 grid(static_cast<unsigned>(slices_), static_cast<unsigned>(split_.chunks));
      auto* const partial = static_cast<float*>(workspace);
      backward_weights_kernel<T, K, S>
          <<<grid, block_threads, shared, site.stream>>>(g, split_, x, y, partial);
      add_slices_kernel<T><<<blocks_of(K * K * g.c), block_threads, 0, site.stream>>>(
          partial, slices_, K * K, g.c, w);
      return;
    }
    constexpr int most_lanes = sizeof(T) == 2 ? 16 : 32;  // 25 KiB of shared memory
    const Split split = split_channels(g.c / pack_size<T>, most_lanes);
    const auto shared = static_cast<size_t>(K * K * split.lanes * pack_size<T>) * sizeof(float);
    const bool forward = request_.pass == ConvolutionPass::forward;
    const int64_t rows = g.n * (forward ? g.h_out : g.h);
    const int64_t tiles = ((forward ? g.w_out : g.w) + tile - 1) / tile;
    const dim3 grid(grid_for(rows * tiles, split.positions), static_cast<unsigned>(split.chunks));
    if (forward) {
      forward_kernel<T, K, S, false><<<grid, block_threads, shared, site.stream>>>(
          g, split, x, w, static_cast<const T*>(operands.b), y);
    } else if constexpr (S == 1) {
      Conv2dGeometry turned = g;
      std::swap(turned.h, turned.h_out);
      std::swap(turned.w, turned.w_out);
      turned.pad_top = K - 1 - g.pad_top;
      turned.pad_left = K - 1 - g.pad_left;
      forward_kernel<T, K, 1, true>
          <<<grid, block_threads, shared, site.stream>>>(turned, split, y, w, nullptr, x);
    } else {
      backward_input_kernel<T, K><<<grid, block_threads, shared, site.stream>>>(g, split, w, y, x);
    }
  }

  ConvolutionRequest request_;
  Split split_;  // of a weights' pass
  int slices_ = 0;
};

}  // namespace

ConvolutionAlgorithmPointer depthwise_convolution(const ConvolutionRequest& request,
                                                  const ConvolutionSite& site) {
  const Conv2dGeometry& g = request.geometry;
  const bool forward = request.pass == ConvolutionPass::forward;
  if (request.pooled || request.both || request.sums || request.normalised) return nullptr;
  if (!forward && request.has_epilogue()) return nullptr;
  const bool window = g.kernel_h == g.kernel_w && g.stride_h == g.stride_w &&
                      (g.kernel_h == 3 || g.kernel_h == 5 || g.kernel_h == 7) && g.stride_h <= 2 &&
                      g.dilation_h == 1 && g.dilation_w == 1;
  const int64_t pack = g.dtype == DType::f32 ? 4 : 8;
  if (!window || g.groups != g.c || g.c_out != g.c || g.c % pack != 0) return nullptr;
  return std::make_unique<DepthwiseConvolution>(request, site);
}

}  // namespace whisker::cuda
