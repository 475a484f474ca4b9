// Sums over the slices that a kernel's blocks leave, and what becomes of sums for a batch norm.
#pragma once

#include "core/cuda/device_code/pdl.cuh"

#include <cstdint>

namespace whisker::cuda {

inline constexpr int add_slices_threads = 128;
/// Outputs per block of add_slices_kernel: several threads add the slices of each.
inline constexpr int outputs_per_block = 8;

__device__ inline void add_to(float& sum, float term) {
  sum += term;
}
__device__ inline void add_to(double2& sum, double2 term) {
  sum.x += term.x;
  sum.y += term.y;
}

/// finish(at, sum of partial (slices, count) at `at` over the slices, in a fixed order)
template <class Sum, class Finish>
__global__ void __launch_bounds__(add_slices_threads)
    add_slices_kernel(const Sum* partial, int slices, int count, Finish finish) {
  wait_for_previous();
  constexpr int parts = add_slices_threads / outputs_per_block;
  __shared__ Sum sums[parts][outputs_per_block];
  const int output = static_cast<int>(threadIdx.x) % outputs_per_block;
  const int part = static_cast<int>(threadIdx.x) / outputs_per_block;
  const int at = static_cast<int>(blockIdx.x) * outputs_per_block + output;
  Sum sum{};
  if (at < count) {
#pragma unroll 8
    for (int slice = part; slice < slices; slice += parts) {
      add_to(sum, partial[int64_t{slice} * count + at]);
    }
  }
  sums[part][output] = sum;
  __syncthreads();
  if (part > 0 || at >= count) return;
  for (int other = 1; other < parts; ++other) add_to(sum, sums[other][output]);
  finish(at, sum);
}
template <class Sum, class Finish>
void add_slices(const LaunchTarget& target, const void* partial, int64_t slices, int64_t count,
                const Finish& finish) {
  launch_pdl(target, static_cast<unsigned>((count + outputs_per_block - 1) / outputs_per_block),
             add_slices_threads, add_slices_kernel<Sum, Finish>, partial, slices, count, finish);
}

/// The sums of `count` numbers and of their squares, from those of what exceeds `shift` in them.
__device__ inline double2 unshifted_sums(int count, double shift, double sum, double squares) {
  const double moved = count * shift;
  return {sum + moved, squares + shift * (2 * sum + moved)};
}

/// (3, C) of the sums of `count` numbers and of their squares: a shift near the mean, behind the
/// sums of what is left of the numbers and of its squares.
struct StoreSums {
  int channel_count;
  double count;
  float* sums;
  __device__ void operator()(int channel, double2 sum) const {
    const auto shift = static_cast<float>(sum.x / count);
    sums[channel] = static_cast<float>(sum.x - count * shift);
    sums[channel_count + channel] = static_cast<float>(sum.y + shift * (count * shift - 2 * sum.x));
    sums[2 * channel_count + channel] = shift;
  }
};

}  // namespace whisker::cuda
