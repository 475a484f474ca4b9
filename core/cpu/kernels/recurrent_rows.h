// The element-wise part of recurrent cells: one step of one sequence, all hidden units at once.
// Gates are blocks of `hidden` elements (docs/internals/recurrent.md).
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// y = a + b.
void add_rows_of(const float* a, const float* b, float* y, int64_t count);

// Forward. gates (gates hidden): in, W_ih x + W_hh h; out, after their functions. bias (gates
// hidden): of both gemms.

void tanh_row(float* gates, const float* bias, float* h, int64_t hidden);
void relu_row(float* gates, const float* bias, float* h, int64_t hidden);
/// c: the cell before the step, then after it, also written to c_kept. m: the result.
void lstm_row(float* gates, const float* bias, float* c, float* c_kept, float* m, int64_t hidden);
/// gates holds only W_ih x in its last block, recurred the last block of W_hh h (out: with its
/// bias). h: the state before the step, then after it.
void gru_row(float* gates, const float* bias, float* recurred, const float* recurred_bias, float* h,
             int64_t hidden);

// Backward. gates, c and recurred are saved by forward; dm is the gradient of the result; dgates
// (gates hidden) is by W_ih x.

void tanh_row_backward(const float* gates, const float* dm, float* dgates, int64_t hidden);
void relu_row_backward(const float* gates, const float* dm, float* dgates, int64_t hidden);
/// dc: gradient of the cell after the step, then before it.
void lstm_row_backward(const float* gates, const float* c, const float* c_before, const float* dm,
                       float* dc, float* dgates, int64_t hidden);
/// drecurred: by the last block of W_hh h. dh: the direct part to the previous state.
void gru_row_backward(const float* gates, const float* recurred, const float* h_before,
                      const float* dm, float* dh, float* dgates, float* drecurred, int64_t hidden);

}  // namespace whisker::cpu
