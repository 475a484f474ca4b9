// The pooling loops on any arrangement of channels; `marks` as pool2d.cpp describes.
#pragma once

#include "core/cpu/planes.h"
#include "core/geometry.h"

namespace whisker::cpu {

/// Bytes per element of y that a maximum leaves for its gradient.
int64_t mark_bytes(const Pool2dGeometry& g);
void pool2d_forward(const Pool2dGeometry& g, const Planes& p, const float* x, float* y,
                    void* marks);
void pool2d_backward(const Pool2dGeometry& g, const Planes& p, const void* marks, const float* dy,
                     float* dx);

}  // namespace whisker::cpu
