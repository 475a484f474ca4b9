// Tensors to the pointers of batch_norm_statistics.
#include "core/cuda/norm/batch_norm.h"

#include "core/backend/fused_ops.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda::kernels {

Running Running::of(const RunningStatistics& running) {
  return {.mean = f32(running.mean),
          .variance = f32(running.variance),
          .pending_mean = f32(running.pending_mean),
          .pending_variance = f32(running.pending_variance),
          .kept = static_cast<float>(1 - running.momentum),
          .added = static_cast<float>(running.momentum)};
}

void batch_norm_statistics(Context& context, Allocator& allocator, const TrainingNorm& norm) {
  batch_norm_statistics(context, allocator, norm.geometry,
                        {.x = norm.x.raw(),
                         .sums = f32(norm.sums),
                         .mean = f32(norm.mean),
                         .inv_std = f32(norm.inv_std),
                         .variance = f32(norm.variance)},
                        Running::of(norm.running));
}

}  // namespace whisker::cuda::kernels
