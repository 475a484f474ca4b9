// The pointwise half of recurrent cells: one step of one sequence, all hidden units at once. Gates
// are blocks of `hidden` elements (docs/recurrent.md).
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// y = a + b.
void add_rows_of(const float* a, const float* b, float* y, int64_t count);

// Forward. gates (gates hidden): in, W_ih x + W_hh h; out, after their functions. bias (gates
// hidden): of both products.

void rnn_row(float* gates, const float* bias, bool relu, float* h, int64_t hidden);
/// c: the cell before the step, then after it, also written to c_kept. m: the result.
void lstm_row(float* gates, const float* bias, float* c, float* c_kept, float* m, int64_t hidden);
/// gates holds W_ih x alone in its last block, recurred the last block of W_hh h (out: with its
/// bias). h: the state before the step, then after it.
void gru_row(float* gates, const float* bias, float* recurred, const float* recurred_bias, float* h,
             int64_t hidden);

// Backward. gates, c and recurred are what forward left; dm arrives for the result; dgates (gates
// hidden) is by W_ih x.

void rnn_row_backward(const float* gates, bool relu, const float* dm, float* dgates,
                      int64_t hidden);
/// dc: by the cell after the step, then by the one before it.
void lstm_row_backward(const float* gates, const float* c, const float* c_before, const float* dm,
                       float* dc, float* dgates, int64_t hidden);
/// drecurred: by the last block of W_hh h. dh: what goes straight to the state before the step.
void gru_row_backward(const float* gates, const float* recurred, const float* h_before,
                      const float* dm, float* dh, float* dgates, float* drecurred, int64_t hidden);

}  // namespace whisker::cpu
