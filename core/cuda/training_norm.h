// The statistics of a batch norm that an operator joins with others.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/training_norm.h"

namespace whisker::cuda {

/// mean, inverse_deviation and what becomes of the running ones: from norm.sums where the
/// convolution before has left them, else from norm.x.
void find_statistics(Context& context, Allocator& allocator, const TrainingNorm& norm);

}  // namespace whisker::cuda
