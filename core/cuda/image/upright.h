// Turning decoded images upright on the GPU.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// Writes the stored (height, width, 3) image at `stored` to `upright`, whose sides are swapped
/// for orientations 5-8 (EXIF; see data/codec/exif.h). The two do not overlap.
void turn_upright(cudaStream_t stream, const uint8_t* stored, int height, int width,
                  int orientation, uint8_t* upright);

}  // namespace whisker::cuda::kernels
