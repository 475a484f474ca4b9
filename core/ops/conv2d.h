// What conv2d hands to its fused operators, and what those have in common with it.
#pragma once

#include "core/backend/geometry.h"
#include "core/ops/ops.h"

namespace whisker {

/// conv2d with max-pooling, of the checked geometry; is_monotonic() holds for its activation.
Tensor conv2d_max_pool2d(const Conv2dGeometry& geometry, const Pool2dOptions& options,
                         const Tensor& x, const Tensor& w, const Tensor& b);

}  // namespace whisker
