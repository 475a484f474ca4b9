// From decoded images to the network's input. The bytes are few (u8 in, 16 bits out), so what
// counts is that neighbouring threads read neighbouring samples. This file is compiled without
// contraction to fused multiply-adds: results are the host's, bit by bit, but for the order in
// which the mean gray is summed.
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/image/images.h"

namespace whisker::cuda::kernels {
namespace {

constexpr int axis_threads = 128;
constexpr int tile_columns = 32;
constexpr int column_pass_rows = 8;  // rows per thread: one weight serves them all
constexpr int column_pass_threads = 4;
constexpr int row_pass_threads = 8;
constexpr int column_pass_block = tile_columns * column_pass_threads;
constexpr int row_pass_block = tile_columns * row_pass_threads;
constexpr int mean_threads = 512;
constexpr int finish_threads = 256;

unsigned blocks_for(int items, int per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// One thread per sample of an axis: where its source samples start, and their weights. Grid
// (samples, axis, image).
__global__ void weigh_axes(const PlannedImage* images, int32_t* weights) {
  const PlannedImage& p = images[blockIdx.z];
  const bool columns = blockIdx.y == 0;
  const ResizeAxis& axis = columns ? p.record.columns : p.record.rows;
  const int most = columns ? p.column_taps : p.row_taps;
  const int i = static_cast<int>(blockIdx.x) * axis_threads + static_cast<int>(threadIdx.x);
  if (i >= axis.count) return;
  const Resampling resampling = resampling_of(axis, p.record.interpolation, p.record.antialias);
  const Taps taps = taps_of(resampling, i);
  const int used = taps.last - taps.first;
  double sum = 0;
  for (int tap = 0; tap < used; ++tap) sum += weight_of(resampling, taps, tap);
  int32_t* const start = weights + (columns ? p.weights : p.row_weights) + i;
  *start = taps.first;
  for (int tap = 0; tap < most; ++tap) {
    start[int64_t{1 + tap} * axis.count] =
        tap < used ? fixed_weight(weight_of(resampling, taps, tap), sum) : 0;
  }
}

// Columns of the source to columns of the result. A thread makes one column of column_pass_rows
// rows; a warp's threads are neighbours in a row. Grid (columns, rows, image).
__global__ void __launch_bounds__(column_pass_block)
    resample_columns(const PlannedImage* images, const uint8_t* bytes, const int32_t* weights,
                     uint8_t* between) {
  const PlannedImage& p = images[blockIdx.z];
  const int count = p.record.columns.count;
  const int x = static_cast<int>(blockIdx.x) * tile_columns + static_cast<int>(threadIdx.x);
  const int y =
      (static_cast<int>(blockIdx.y) * column_pass_threads + static_cast<int>(threadIdx.y)) *
      column_pass_rows;
  if (x >= count || y >= p.row_count) return;
  const int64_t base = p.record.resident ? 0 : reinterpret_cast<int64_t>(bytes);
  const auto* source = reinterpret_cast<const uint8_t*>(base + p.record.offset);
  const uint8_t* rows[column_pass_rows];
  int32_t sums[column_pass_rows][3];
#pragma unroll
  for (int r = 0; r < column_pass_rows; ++r) {
    const int row = p.first_row + min(y + r, p.row_count - 1);
    rows[r] = source + row * p.record.stride;
    for (int c = 0; c < 3; ++c) sums[r][c] = weight_half;
  }
  const int32_t* const table = weights + p.weights + x;
  const int start = table[0];
  for (int tap = 0; tap < p.column_taps; ++tap) {
    const int32_t weight = table[int64_t{1 + tap} * count];
    const int at = 3 * min(start + tap, p.column_end - 1);  // those beyond weigh nothing
#pragma unroll
    for (int r = 0; r < column_pass_rows; ++r) {
      for (int c = 0; c < 3; ++c) sums[r][c] += weight * rows[r][at + c];
    }
  }
  uint8_t* out = between + p.between + (int64_t{y} * count + x) * 3;
#pragma unroll
  for (int r = 0; r < column_pass_rows; ++r, out += int64_t{3} * count) {
    if (y + r >= p.row_count) break;
    for (int c = 0; c < 3; ++c) out[c] = rounded_sample(sums[r][c]);
  }
}

// Rows of the source to rows of the result, at their place on black. A thread makes one pixel.
// Grid (columns, rows, image).
__global__ void __launch_bounds__(row_pass_block)
    resample_rows(const PlannedImage* images, const int32_t* weights, const uint8_t* between,
                  uint8_t* placed, int height, int width) {
  const PlannedImage& p = images[blockIdx.z];
  const int x = static_cast<int>(blockIdx.x) * tile_columns + static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(blockIdx.y) * row_pass_threads + static_cast<int>(threadIdx.y);
  if (x >= width || y >= height) return;
  uint8_t* const out = placed + ((int64_t{blockIdx.z} * height + y) * width + x) * 3;
  const Rect& place = p.record.place;
  int column = x - place.left;
  int row = y - place.top;
  if (column < 0 || row < 0 || column >= place.width || row >= place.height) {
    for (int c = 0; c < 3; ++c) out[c] = 0;
    return;
  }
  if (p.record.flip_horizontal) column = place.width - 1 - column;
  if (p.record.flip_vertical) row = place.height - 1 - row;
  const int count = p.record.rows.count;
  const int32_t* const table = weights + p.row_weights + row;
  const int start = table[0] - p.first_row;
  const uint8_t* const from = between + p.between + int64_t{3} * column;
  const int64_t stride = int64_t{3} * p.record.columns.count;
  int32_t sums[3] = {weight_half, weight_half, weight_half};
  for (int tap = 0; tap < p.row_taps; ++tap) {
    const int32_t weight = table[int64_t{1 + tap} * count];
    const uint8_t* const sample = from + min(start + tap, p.row_count - 1) * stride;
    for (int c = 0; c < 3; ++c) sums[c] += weight * sample[c];
  }
  for (int c = 0; c < 3; ++c) out[c] = rounded_sample(sums[c]);
}

__device__ PlacedImage placed_image(const ImageLaunch& launch, int n) {
  const int64_t bytes = int64_t{3} * launch.height * launch.width;
  return {.rgb = launch.placed + n * bytes,
          .height = launch.height,
          .width = launch.width,
          .gray = launch.gray};
}

// The mean gray before the image's contrast step number `number`. One block per image, summed
// in one order: each thread its own pixels, then warps.
__global__ void __launch_bounds__(mean_threads)
    mean_gray(const __grid_constant__ ImageLaunch launch, int number) {
  const auto n = static_cast<int>(blockIdx.x);
  const ImageRecord& record = launch.images[n].record;
  int step = 0;
  for (int before = 0; step < record.jitter_steps; ++step) {
    if (record.jitter[step].kind == JitterKind::contrast && before++ == number) break;
  }
  if (step == record.jitter_steps) return;  // the whole block
  const PlacedImage image = placed_image(launch, n);
  double* const means = launch.means + int64_t{n} * most_jitter_steps;
  const int pixels = image.height * image.width;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < pixels; i += mean_threads) {
    const Rgb pixel = jittered_pixel(record, image, means, step, i / image.width, i % image.width);
    sum += static_cast<double>(jitter_gray(pixel.v));
  }
  sum = group_sum<mean_threads>(sum);
  if (threadIdx.x == 0) means[step] = sum / (static_cast<double>(image.height) * image.width);
}

__device__ Rgb finished(const ImageLaunch& launch, int n, int y, int x) {
  return finished_pixel(launch.images[n].record, placed_image(launch, n),
                        launch.means + int64_t{n} * most_jitter_steps, y, x);
}

// One thread per pixel of the inputs. Grid (pixels, image).
template <class T>
__global__ void __launch_bounds__(finish_threads)
    finish(const __grid_constant__ ImageLaunch launch, T* inputs) {
  const int i = static_cast<int>(blockIdx.x) * finish_threads + static_cast<int>(threadIdx.x);
  const int pixels = launch.height * launch.width;
  if (i >= pixels) return;
  const int y = i / launch.width;
  const int x = i % launch.width;
  const auto n = static_cast<int>(blockIdx.y);
  const int partner = n > 0 ? n - 1 : launch.count - 1;
  const bool partner_alone = shows_partner(launch.mix, y, x);
  Rgb pixel = finished(launch, partner_alone ? partner : n, y, x);
  if (launch.mix.kind == BatchMix::Kind::mixup) {
    pixel = mixed_pixel(launch.mix, pixel, finished(launch, partner, y, x), y, x);
  }
  const int channels = launch.gray ? 1 : 3;
  T* const out = inputs + (int64_t{n} * pixels + i) * channels;
#pragma unroll
  for (int c = 0; c < 3; ++c) {
    if (c < channels) out[c] = from_f32<T>(pixel.v[c]);
  }
}

}  // namespace

void place_images(cudaStream_t stream, const ImageLaunch& launch) {
  const auto images = static_cast<unsigned>(launch.count);
  const ImagePlan& plan = launch.plan;
  const dim3 samples(blocks_for(plan.samples, axis_threads), 2, images);
  launch_kernel(stream, "weigh_axes", {samples, axis_threads}, weigh_axes, launch.images,
                launch.weights);
  const dim3 columns(blocks_for(plan.columns, tile_columns),
                     blocks_for(plan.rows, column_pass_threads * column_pass_rows), images);
  launch_kernel(stream, "resample_columns", {columns, dim3(tile_columns, column_pass_threads)},
                resample_columns, launch.images, launch.bytes, launch.weights, launch.between);
  const dim3 pixels(blocks_for(launch.width, tile_columns),
                    blocks_for(launch.height, row_pass_threads), images);
  launch_kernel(stream, "resample_rows", {pixels, dim3(tile_columns, row_pass_threads)},
                resample_rows, launch.images, launch.weights, launch.between, launch.placed,
                launch.height, launch.width);
  for (int number = 0; number < plan.contrast_steps; ++number) {
    launch_kernel(stream, "mean_gray", {images, mean_threads}, mean_gray, launch, number);
  }
}

void finish_images(cudaStream_t stream, const ImageLaunch& launch, DType dtype, void* inputs) {
  const dim3 grid(blocks_for(launch.height * launch.width, finish_threads),
                  static_cast<unsigned>(launch.count));
  visit_real(dtype, [&]<class T>() {
    launch_kernel(stream, "finish_images", {grid, finish_threads}, finish<T>, launch, inputs);
  });
}

}  // namespace whisker::cuda::kernels
