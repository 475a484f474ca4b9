// Tensors to pointers.
#include "core/cuda/training_norm.h"

#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/norm/summed_statistics.h"

namespace whisker::cuda {

void find_statistics(Context& context, Allocator& allocator, const TrainingNorm& norm) {
  const kernels::Running running = kernels::Running::of(norm.running);
  if (norm.sums.defined()) {
    kernels::statistics_of_sums(context, norm.geometry,
                                {.sums = f32(norm.sums),
                                 .mean = f32(norm.mean),
                                 .inverse_deviation = f32(norm.inverse_deviation)},
                                running);
  } else {
    kernels::batch_norm_statistics(context, allocator, norm.geometry,
                                   {.x = norm.x.raw(),
                                    .mean = f32(norm.mean),
                                    .inverse_deviation = f32(norm.inverse_deviation)},
                                   running);
  }
}

}  // namespace whisker::cuda
