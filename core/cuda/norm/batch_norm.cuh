// What the passes of batch normalisation share: z of x, and the layout of the passes that write.
#pragma once

#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/device/launch.h"
#include "core/cuda/norm/columns.cuh"

namespace whisker::cuda {

// z = (x - mean) scale + beta with scale = gamma / deviation. Both ways compute z by this one
// expression, so that the backward pass finds the very sign of the forward one.
__device__ inline float normalised(float x, float center, float scale, float shift) {
  return fmaf(x - center, scale, shift);
}

/// For each chunk `blocks` of block_threads that share it: as many as the kernel's registers leave
/// room for on a multiprocessor.
inline dim3 map_grid(const Columns& t, unsigned blocks) {
  return {t.tiles, t.chunks, blocks};
}

}  // namespace whisker::cuda
