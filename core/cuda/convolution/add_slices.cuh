// Sums over the slices that a kernel's blocks leave, and what becomes of sums for a batch norm.
#pragma once

#include "core/cuda/device_code/pdl.cuh"

#include <cstdint>

namespace whisker::cuda {

inline constexpr int add_slices_threads = 256;
/// Slices that a thread of add_slices_kernel loads before it adds them up.
inline constexpr int slices_together = 8;

__device__ inline void add_to(float& sum, float term) {
  sum += term;
}
__device__ inline void add_to(double2& sum, double2 term) {
  sum.x += term.x;
  sum.y += term.y;
}

/// finish(at, sum of partial (slices, count) at `at` over the slices, in a fixed order). A block
/// has 2^outputs_log outputs; the threads of one output add up some slices each, then their sums.
template <class Sum, class Finish>
__global__ void __launch_bounds__(add_slices_threads, 4)
    add_slices_kernel(const Sum* partial, int slices, int count, int outputs_log, Finish finish) {
  wait_for_previous();
  __shared__ Sum sums[add_slices_threads];
  const auto own = static_cast<int>(threadIdx.x);
  const int outputs = 1 << outputs_log, parts = add_slices_threads >> outputs_log;
  const int at = static_cast<int>(blockIdx.x) * outputs + (own & (outputs - 1));
  Sum sum{};
  if (at < count) {
    const int part = own >> outputs_log;
    const Sum* from = partial + int64_t{part} * count + at;
    const int64_t step = int64_t{parts} * count;
    for (int left = slices - part; left > 0;) {
      Sum terms[slices_together];
#pragma unroll
      for (Sum& term : terms) {
        term = left > 0 ? *from : Sum{};
        left -= parts;
        from += step;
      }
#pragma unroll
      for (const Sum& term : terms) add_to(sum, term);
    }
  }
  sums[own] = sum;
  __syncthreads();
  for (int half = add_slices_threads / 2; half >= outputs; half /= 2) {
    if (own < half) add_to(sums[own], sums[own + half]);
    __syncthreads();
  }
  if (own < outputs && at < count) finish(at, sums[own]);
}
/// At least two outputs per block, so that threads read whole sectors of f64 pairs.
template <class Sum, class Finish>
void add_slices(const KernelSite& site, const void* partial, int64_t slices, int64_t count,
                const Finish& finish) {
  int outputs_log = 8;
  static_assert(1 << 8 == add_slices_threads);
  while (outputs_log > 1 && (add_slices_threads >> outputs_log) * slices_together < slices) {
    --outputs_log;
  }
  const int64_t outputs = int64_t{1} << outputs_log;
  launch_pdl(site, {static_cast<unsigned>((count + outputs - 1) / outputs), add_slices_threads},
             add_slices_kernel<Sum, Finish>, partial, slices, count, outputs_log, finish);
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
