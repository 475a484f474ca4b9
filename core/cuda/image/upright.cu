// One thread per pixel of the result, neighbours in a row of it. Images that need turning are few
// and small: what counts is that this is simple.
#include "core/cuda/device_code/launch.h"
#include "core/cuda/image/images.h"
#include "core/cuda/runtime/check.h"

namespace whisker::cuda::kernels {
namespace {

__global__ void __launch_bounds__(block_threads)
    turn_pixels(const uint8_t* stored, int height, int width, int orientation, uint8_t* upright) {
  const bool mirrors_x =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirrors_y =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool swaps = orientation >= 5;
  const int upright_width = swaps ? height : width;
  const int64_t pixels = int64_t{height} * width;
  const int64_t step = int64_t{gridDim.x} * block_threads;
  for (int64_t i = int64_t{blockIdx.x} * block_threads + threadIdx.x; i < pixels; i += step) {
    const auto row = static_cast<int>(i / upright_width);
    const auto column = static_cast<int>(i % upright_width);
    int y = swaps ? column : row;
    int x = swaps ? row : column;
    if (mirrors_x) x = width - 1 - x;
    if (mirrors_y) y = height - 1 - y;
    const uint8_t* const from = stored + (int64_t{y} * width + x) * 3;
    for (int c = 0; c < 3; ++c) upright[3 * i + c] = from[c];
  }
}

}  // namespace

void turn_upright(cudaStream_t stream, const uint8_t* stored, int height, int width,
                  int orientation, uint8_t* upright) {
  turn_pixels<<<grid_for(int64_t{height} * width), block_threads, 0, stream>>>(
      stored, height, width, orientation, upright);
  check_launch("turn_upright");
}

}  // namespace whisker::cuda::kernels
