// What the passes of batch normalisation have in common: z of x, and the grid of the passes that
// write.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/norm/two_channel_sums.cuh"

namespace whisker::cuda {

// z = (x - mean) scale + beta, scale = gamma inv_std. Forward and backward compute z by this one
// expression, so that both find the same sign.
__device__ inline float normalised(float x, float center, float scale, float shift) {
  return fmaf(x - center, scale, shift);
}

/// `blocks` blocks of block_threads for each chunk: as many as fit on a multiprocessor by
/// registers.
inline dim3 map_grid(const ChannelLayout& t, unsigned blocks) {
  return {t.tiles, t.chunks, blocks};
}

}  // namespace whisker::cuda
