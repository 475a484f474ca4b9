// Small loops over matrices of rows that several operators share.
#pragma once

#include "core/cpu/allocator.h"
#include "core/geometry.h"

#include <cstdint>

namespace whisker::cpu {

/// y (rows, columns) = f(y + bias); bias (columns) may be null.
void bias_activation(float* y, int64_t rows, int64_t columns, const float* bias, ActivationSpec f);
/// dz = f'(y) dy over `count` elements.
void activation_gradient(ActivationSpec f, const float* y, const float* dy, float* dz,
                         int64_t count);
/// sums (columns) = column sums of x (rows, columns), accumulated in f64.
void column_sums(Allocator& allocator, const float* x, int64_t rows, int64_t columns, float* sums);

}  // namespace whisker::cpu
