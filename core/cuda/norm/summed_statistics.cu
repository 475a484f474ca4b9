// One thread for each channel.
#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/device/launch.h"
#include "core/cuda/norm/summed_statistics.h"

namespace whisker::cuda::kernels {
namespace {

// The two sums nearly cancel where the mean is large beside the deviation: in f64 they lose no
// more than they brought. What the squares round to below zero is zero; a NaN stays one.
__global__ void __launch_bounds__(block_threads)
    statistics_of_sums_kernel(int64_t channels, int64_t rows, float epsilon, SummedStatistics p,
                              Running running) {
  wait_for_previous();
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (c >= channels) return;
  const auto count = static_cast<double>(rows);
  const double mean = p.sums[c] / count;
  double spread = p.sums[channels + c] - p.sums[c] * mean;
  if (spread < 0) spread = 0;
  const auto variance = static_cast<float>(spread / count);
  p.mean[c] = static_cast<float>(mean);
  if (p.variance) p.variance[c] = variance;
  p.inverse_deviation[c] = 1 / sqrtf(variance + epsilon);
  if (!running.mean) return;
  const auto unbiased = static_cast<float>(spread / (count > 1 ? count - 1 : 1));
  running.pending_mean[c] =
      running.kept * running.mean[c] + running.added * static_cast<float>(mean);
  running.pending_variance[c] = running.kept * running.variance[c] + running.added * unbiased;
}

}  // namespace

void statistics_of_sums(Context& context, const BatchNormGeometry& g, const SummedStatistics& p,
                        const Running& running) {
  launch_early(context, blocks_of(g.channels), block_threads, statistics_of_sums_kernel, g.channels,
               g.rows, static_cast<float>(g.epsilon), p, running);
  check_launch("statistics of sums");
}

}  // namespace whisker::cuda::kernels
