// Small loops over matrices of rows that several operators share.
#pragma once

#include "core/cpu/allocator.h"
#include "core/geometry.h"

#include <cstdint>

namespace whisker::cpu {

// T and Y are float or bf16_t.

/// y (rows, columns) = f(z + bias); bias (columns) may be null, y may be z.
template <class Z, class Y>
void bias_activation(const Z* z, Y* y, int64_t rows, int64_t columns, const Y* bias,
                     ActivationSpec f);
/// dz = f'(y) dy over `count` elements.
template <class T>
void activation_gradient(ActivationSpec f, const T* y, const T* dy, T* dz, int64_t count);
/// sums (columns) = column sums of x (rows, columns), accumulated in f64.
template <class T>
void column_sums(Allocator& allocator, const T* x, int64_t rows, int64_t columns, T* sums);

}  // namespace whisker::cpu
