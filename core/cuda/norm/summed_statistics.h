// A batch norm's statistics from the sums that another operator left. All vectors are (channels)
// and f32 unless told otherwise.
#pragma once

#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda::kernels {

struct SummedStatistics {
  const float* sums = nullptr;         // (2, channels): of x and of its squares
  float* mean = nullptr;               // written, as are the next
  float* variance = nullptr;           // biased; null: not wanted
  float* inverse_deviation = nullptr;  //
};
/// mean, variance, inverse_deviation and `running` of what `sums` are of.
void statistics_of_sums(Context& context, const BatchNormGeometry& g, const SummedStatistics& p,
                        const Running& running);

}  // namespace whisker::cuda::kernels
