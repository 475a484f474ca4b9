// Dropout: each pass draws the same mask where it applies it (core/backend/dropout_mask.h).
#include "core/backend/dropout_mask.h"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/ops/elementwise.h"

namespace whisker::cuda::kernels {
namespace {

// A thread draws one Philox block and keeps or drops its four elements.
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    dropout_kernel(uint64_t threshold, float scale, RandomKey key, const T* x, T* y,
                   int64_t count) {
  const uint64_t stream = dropout_stream(key);
  for (int64_t block = first_item(); block * 4 < count; block += item_step()) {
    const PhiloxBlock words = philox_block(key.seed, stream, static_cast<uint64_t>(block));
    const auto drop = [&](int k, T value) {
      return words[k] >= threshold ? from_f32<T>(to_f32(value) * scale) : from_f32<T>(0);
    };
    if (N == 4 && block * 4 + 4 <= count) {
      Pack<T, 4> pack = reinterpret_cast<const Pack<T, 4>*>(x)[block];
#pragma unroll
      for (int k = 0; k < 4; ++k) pack.at[k] = drop(k, pack.at[k]);
      reinterpret_cast<Pack<T, 4>*>(y)[block] = pack;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int64_t i = block * 4 + k;
        if (i < count) y[i] = drop(k, x[i]);
      }
    }
  }
}

}  // namespace

void dropout(cudaStream_t stream, double rate, const RandomKey& key, DType dtype, const void* x,
             void* y, int64_t count) {
  if (count == 0) return;
  const auto scale = static_cast<float>(1 / (1 - rate));
  const uint64_t threshold = dropout_threshold(rate);
  visit_real(dtype, [&]<class T>() {
    const auto* in = static_cast<const T*>(x);
    auto* out = static_cast<T*>(y);
    const unsigned grid = grid_for((count + 3) / 4);
    if (aligned_for<4>(in, out)) {
      dropout_kernel<T, 4>
          <<<grid, block_threads, 0, stream>>>(threshold, scale, key, in, out, count);
    } else {
      dropout_kernel<T, 1>
          <<<grid, block_threads, 0, stream>>>(threshold, scale, key, in, out, count);
    }
  });
  check_launch("dropout");
}

}  // namespace whisker::cuda::kernels
