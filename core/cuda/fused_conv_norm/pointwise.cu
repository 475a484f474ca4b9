// The forward kernel of the fused pointwise convolution; tiles, blocks and launches of all kernels.
#include "core/cuda/convolution/add_slices.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/fused_conv_norm/pointwise.h"
#include "core/cuda/fused_conv_norm/pointwise_gradients.cuh"
#include "core/cuda/runtime/check.h"
#include "core/error.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace whisker::cuda {
namespace {

using namespace pointwise;

constexpr int forward_threads = 256;

/// y, and partial (gridDim.x times the warps side by side along the rows; C_out): the sums of y and
/// of its squares. A block normalises a tile into shared memory, where w lies; a warp computes 16
/// rows by Outputs x 8 outputs at a time. f32 adds deviations from the thread's first y, against
/// cancellation; f64 takes them together.
template <class T, int Outputs>
__global__ void __launch_bounds__(forward_threads, 2)
    forward_kernel(Tiles t, ImageNorm norm, const T* x, const T* w, T* y, double2* partial) {
  wait_for_previous();
  extern __shared__ uint4 memory[];
  const int pitch = pitch_of(t.c), packs = t.c / pack;
  const int parts = (t.c_out / 8 + Outputs - 1) / Outputs;  // warps side by side along the outputs
  T* const weights = reinterpret_cast<T*>(memory);          // (parts Outputs 8, pitch)
  T* tile = weights + parts * Outputs * 8 * pitch;          // two (tile_rows, pitch)
  T* other_tile = tile + t.tile_rows * pitch;
  const TileCopy<T> copy(x, t.c, pitch, t);
  const int64_t last = t.count - 1 - blockIdx.x;
  copy.start(last, tile);
  for (int at = static_cast<int>(threadIdx.x); at < parts * Outputs * 8 * packs;
       at += forward_threads) {
    const int output = at / packs, column = at % packs * pack;
    uint4 bytes{};
    if (output < t.c_out) bytes = load_pack_bytes<pack>(w, int64_t{output} * t.c + column);
    *reinterpret_cast<uint4*>(weights + output * pitch + column) = bytes;
  }
  Factors<pack> factors;
#pragma unroll
  for (int v = 0; v < pack; ++v) factors.set(v, norm, copy.column() + v);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = lane / 4, pair = lane % 4 * 2;
  const int part = warp % parts, slot = warp / parts, slots = forward_threads / 32 / parts;
  const int first = part * Outputs * 8 + pair;  // output
  float sums[Outputs][2] = {}, squares[Outputs][2] = {};
  uint32_t shifts[Outputs] = {};  // words of y
  int count = 0;                  // of rows
  for (int64_t at = last; at >= 0; at -= gridDim.x) {
    wait_for_copies();
    with_curve<T>(norm.activation, [&](const auto& f) {
      copy.each([&](int row) {
        auto* const to = reinterpret_cast<uint4*>(tile + row * pitch + copy.column());
        uint4 words = *to;
        for_words(words, [&](int v, uint32_t& word) {
          float in[2];
          to_floats<T>(word, in);
          word = f.value({factors.z(v, in[0]), factors.z(v + 1, in[1])});
        });
        *to = words;
      });
    });
    __syncthreads();  // the other tile is no longer read
    copy.start(at - gridDim.x, other_tile);
#pragma unroll 1
    for (int step = slot; slot < slots && step < t.tile_rows / 16; step += slots) {
      float acc[Outputs][4] = {};
      const T* a = tile + (step * 16 + group) * pitch + pair;
      const T* b = weights + (part * Outputs * 8 + group) * pitch + pair;
#pragma unroll 2
      for (int unit = 0; unit + 1 < packs; unit += 2, a += 16, b += 16) {
        const uint32_t a0[2] = {word_at(a), word_at(a + 8 * pitch)};
        const uint32_t a1[2] = {word_at(a + 8), word_at(a + 8 * pitch + 8)};
#pragma unroll
        for (int j = 0; j < Outputs; ++j) {
          multiply_add_two<T>(acc[j], a0, a1, word_at(b + j * 8 * pitch),
                              word_at(b + j * 8 * pitch + 8));
        }
      }
      if (packs % 2 == 1) {
        const uint32_t a0[2] = {word_at(a), word_at(a + 8 * pitch)};
#pragma unroll
        for (int j = 0; j < Outputs; ++j) multiply_add<T>(acc[j], a0, {word_at(b + j * 8 * pitch)});
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = at * t.tile_rows + step * 16 + group + 8 * half;
        if (row >= t.rows) continue;
#pragma unroll
        for (int j = 0; j < Outputs; ++j) {
          if (first + j * 8 >= t.c_out) continue;
          const uint32_t word = two_rounded<T>(acc[j][2 * half], acc[j][2 * half + 1]);
          *reinterpret_cast<uint32_t*>(y + row * t.c_out + first + j * 8) = word;
          if (count == 0) shifts[j] = word;
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            add_deviation(element<T>(word, e) - element<T>(shifts[j], e), sums[j][e],
                          squares[j][e]);
          }
        }
        ++count;
      }
    }
    std::swap(tile, other_tile);
  }
  double2* const slice = partial + (int64_t{blockIdx.x} * slots + slot) * t.c_out;
#pragma unroll
  for (int j = 0; j < Outputs; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      double2 total = unshifted_sums(count, element<T>(shifts[j], e), sums[j][e], squares[j][e]);
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        total.x += __shfl_xor_sync(all_lanes, total.x, distance);
        total.y += __shfl_xor_sync(all_lanes, total.y, distance);
      }
      const int output = first + j * 8 + e;
      if (group == 0 && slot < slots && output < t.c_out) slice[output] = total;
    }
  }
}

/// Tiles of about 16 KB of x, and of at most 72 KB where a row takes `row_elements` elements of
/// shared memory.
Tiles tiles_of(const Conv2dGeometry& g, int row_elements) {
  Tiles t{.rows = g.n * g.h * g.w, .c = static_cast<int>(g.c), .c_out = static_cast<int>(g.c_out)};
  t.tile_rows = std::min(8192 / t.c, 36864 / row_elements) / 16 * 16;
  t.count = (t.rows + t.tile_rows - 1) / t.tile_rows;
  return t;
}

/// Calls fn.operator()<T>() with the device type of bf16 or f16.
template <class Fn>
void visit_narrow(DType dtype, const Fn& fn) {
  dtype == DType::bf16 ? fn.template operator()<bfloat_t>() : fn.template operator()<half_t>();
}

/// Calls fn.operator()<N>() with the least N of ascending `Sizes` that is at least `size`.
template <int... Sizes, class Fn>
void with_least(int64_t size, const Fn& fn) {
  if (!((size <= Sizes && (fn.template operator()<Sizes>(), true)) || ...)) {
    fail(ErrorKind::internal, "pointwise convolution: no kernel for {} units", size);
  }
}

/// Blocks of `threads` threads and `elements` elements of shared memory each: as many as are
/// resident at once; at most one per tile, and at most `most` but one per multiprocessor.
template <class Kernel>
Blocks persistent_launch(const Context& context, Kernel* kernel, const Tiles& t, int threads,
                         int elements, int64_t most = std::numeric_limits<int64_t>::max()) {
  const size_t bytes = static_cast<size_t>(elements) * 2;
  allow_shared_memory(kernel, bytes);
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, bytes),
        "asking for resident blocks");
  const int64_t multiprocessors = context.multiprocessors();
  const int64_t blocks =
      std::min({t.count, std::max(resident, 1) * multiprocessors, std::max(most, multiprocessors)});
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads), bytes};
}

template <class T, int Outputs>
void forward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
             const ConvolutionOperands& o) {
  const int pitch = pitch_of(static_cast<int>(g.c));
  const Tiles t = tiles_of(g, 2 * pitch);
  const int parts = (t.c_out / 8 + Outputs - 1) / Outputs;
  const auto kernel = forward_kernel<T, Outputs>;
  const Blocks blocks = persistent_launch(context, kernel, t, forward_threads,
                                          (parts * Outputs * 8 + 2 * t.tile_rows) * pitch);
  const int64_t slices = int64_t{blocks.grid.x} * (forward_threads / 32 / parts);
  const Scratch partial(allocator, slices * t.c_out * int64_t{sizeof(double2)});
  launch_pdl(context.site(), blocks, kernel, t, o.norm, o.x, o.w, o.y, partial.data());
  add_slices<double2>(context.site(), partial.data(), slices, t.c_out,
                      StoreSums{t.c_out, static_cast<double>(t.rows), o.sums});
}

template <class T, int Units>
void backward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
              const ConvolutionOperands& o, void* dw) {
  const int groups = static_cast<int>(g.c + 15) / 16, parts = std::max(8 / groups, 1);
  const int threads = groups * parts * 32;
  const int pitch = pitch_of(static_cast<int>(g.c)), dy_pitch = pitch_of(Units * 8);
  const Tiles t = tiles_of(g, 3 * pitch + 2 * dy_pitch);
  const int outputs = t.c * t.c_out + 2 * t.c;
  const void* const x = o.norm_gradients.x;
  const Scratch coefficients(allocator, 2 * g.c * int64_t{sizeof(float)});
  {
    // f32 slices of at most an eighth of x, or one block per multiprocessor.
    const auto kernel = gradient_sums_kernel<T, Units>;
    const Blocks blocks =
        persistent_launch(context, kernel, t, threads, 2 * t.tile_rows * (pitch + dy_pitch),
                          t.rows * t.c / (16 * int64_t{outputs} * parts));
    const int64_t slices = int64_t{blocks.grid.x} * parts;
    const Scratch partial(allocator, slices * outputs * int64_t{sizeof(float)});
    launch_pdl(context.site(), blocks, kernel, t, o.norm, x, o.w, o.y, partial.data());
    add_slices<float>(context.site(), partial.data(), slices, outputs,
                      StoreGradients<T>{t, o.norm, static_cast<T*>(dw), o.norm_gradients.dgamma,
                                        o.norm_gradients.dbeta, coefficients.as<float>()});
  }
  if (!o.x) return;
  const auto kernel = input_gradient_kernel<T, Units>;
  const Blocks blocks =
      persistent_launch(context, kernel, t, threads, t.tile_rows * (3 * pitch + 2 * dy_pitch));
  launch_pdl(context.site(), blocks, kernel, t, o.norm, coefficients.data(), x, o.w, o.y, o.x);
}

}  // namespace

void pointwise_forward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                       const ConvolutionOperands& operands) {
  const int64_t units = g.c_out / 8, parts = (units + 3) / 4;
  visit_narrow(g.dtype, [&]<class T>() {
    with_least<2, 3, 4>((units + parts - 1) / parts, [&]<int Outputs>() {
      forward<T, Outputs>(context, allocator, g, operands);
    });
  });
}

void pointwise_backward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                        const ConvolutionOperands& operands, void* dw) {
  visit_narrow(g.dtype, [&]<class T>() {
    with_least<2, 3, 4, 5, 8, 10>(
        g.c_out / 8, [&]<int Units>() { backward<T, Units>(context, allocator, g, operands, dw); });
  });
}

}  // namespace whisker::cuda
