// Small loops over arrays and matrices of rows, used by several operators.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/support/allocator.h"
#include "core/tensor/dtype.h"

#include <cstdint>

namespace whisker::cpu {

// T and Y are float or bf16_t.

/// y (rows, columns) = f(z + bias); bias (columns) may be null, y may be z.
template <class Z, class Y>
void bias_activation(const Z* z, Y* y, int64_t rows, int64_t columns, const Y* bias,
                     ActivationSpec f);
/// y = f(y + residual) over `count` elements.
template <class T>
void residual_activation(const T* residual, T* y, int64_t count, ActivationSpec f);
/// dz = f'(y) dy over `count` elements.
template <class T>
void activation_gradient(ActivationSpec f, const T* y, const T* dy, T* dz, int64_t count);
/// sums (columns) = sums over the rows of x (rows, columns), accumulated in f64.
template <class T>
void column_sums(Allocator& allocator, const T* x, int64_t rows, int64_t columns, T* sums);
/// What it allocates.
int64_t column_sums_bytes(int64_t rows, int64_t columns);
/// The largest x of `count`.
float largest_of(const float* x, int64_t count);
/// y = exp(x - shift); returns the sum. y may be x or null.
double exponentials(const float* x, float shift, float* y, int64_t count);
/// x = scale x.
void scale_row(float* x, float scale, int64_t count);
/// y = softmax(x), or its logarithm, of one row; y may be x.
void softmax_row(const float* x, bool log, float* y, int64_t count);
/// y = x, rounded, over `count` elements.
void round_row(const float* x, bf16_t* y, int64_t count);
/// The largest |x|, 0 for none; NaN when an element is NaN, else infinity when one is infinite.
template <class T>
float largest_magnitude(const T* x, int64_t count);

}  // namespace whisker::cpu
