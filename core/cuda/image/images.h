// Launchers of the kernels that turn decoded images into the network's input. Plain structs and
// pointers; core/image/image_record.h says what they compute.
#pragma once

#include "core/image/image_pixels.h"
#include "core/tensor/dtype_name.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// A record, and where its intermediate results lie.
struct PlannedImage {
  ImageRecord record;
  /// First of its weights, in i32: for columns, then for rows, starts (count) and weights (taps,
  /// count).
  int64_t weights = 0;
  int64_t row_weights = 0;
  int64_t between = 0;  ///< first byte of its (row_count, columns.count, 3) between the passes
  int column_taps = 0;
  int row_taps = 0;
  int column_end = 0;  ///< no source column from here on is there
  int first_row = 0;   ///< source rows that weigh anything: [first_row, first_row + row_count)
  int row_count = 0;
};

/// What a batch's images need in all, then the largest of each.
struct ImagePlan {
  int64_t weights = 0;  ///< i32 values
  int64_t between_bytes = 0;
  int samples = 0;  ///< of one axis after resampling
  int columns = 0;  ///< after resampling
  int rows = 0;     ///< row_count
  int contrast_steps = 0;
};

/// Device memory and extents of one batch.
struct ImageLaunch {
  const PlannedImage* images = nullptr;  // (N)
  const uint8_t* bytes = nullptr;
  int32_t* weights = nullptr;
  uint8_t* between = nullptr;
  uint8_t* placed = nullptr;  // (N, H, W, 3)
  double* means = nullptr;    // (N, most_jitter_steps)
  int count = 0;              ///< N, up to 65535
  int height = 0;
  int width = 0;
  bool gray = false;
  PixelMix mix = {};
  ImagePlan plan = {};
};

/// Resamples, flips and places: `placed` is written, and `means` where a contrast step needs one.
void place_images(cudaStream_t stream, const ImageLaunch& launch);
/// Warps, jitters, normalises, erases and mixes `placed` into inputs (N, H, W, 3 or, gray, 1) of
/// f32, bf16 or f16.
void finish_images(cudaStream_t stream, const ImageLaunch& launch, DType dtype, void* inputs);

}  // namespace whisker::cuda::kernels
