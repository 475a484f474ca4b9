// What conv2d_with_sums and the operators that fuse it with a batch_norm have in common.
#pragma once

#include "core/backend/geometry.h"
#include "core/ops/ops.h"

namespace whisker {

/// conv2d_with_sums of the checked geometry, without a record of it, for devices with a
/// FusedConvNorm.
Convolved convolve_with_sums(const Conv2dGeometry& geometry, const Tensor& x, const Tensor& w);

}  // namespace whisker
