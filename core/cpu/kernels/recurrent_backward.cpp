// A cell's backward pass: gradients of the gates step by step, then x and the parameters in one
// gemm each over all steps (Werbos 1990, "Backpropagation through time").
#include "core/cpu/kernels/recurrent_cell.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/flush_denormals.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/rows.h"
#include "core/cpu/support/vector_math.h"
#include "core/vectorize.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

// gates, c and recurred are saved by forward; dm is the gradient of the result; dgates (gates
// hidden) is by W_ih x.

WHISKER_VECTORIZE void tanh_row_backward(const float* y, const float* dm, float* dgates,
                                         int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) dgates[j] = dm[j] * (1 - y[j] * y[j]);
}

WHISKER_VECTORIZE void relu_row_backward(const float* y, const float* dm, float* dgates,
                                         int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) dgates[j] = y[j] <= 0 ? 0 : dm[j];
}

// dc: gradient of the cell after the step, then before it.
WHISKER_VECTORIZE void lstm_row_backward(const float* gates, const float* c, const float* c_before,
                                         const float* dm, float* dc, float* dgates,
                                         int64_t hidden) {
  const float *gi = gates, *gf = gates + hidden, *gg = gf + hidden, *go = gg + hidden;
  float *di = dgates, *df = dgates + hidden, *dg = df + hidden, *d_o = dg + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = gi[j], f = gf[j], g = gg[j], o = go[j];
    const float squashed = vector_tanh(c[j]);
    const float dcell = dc[j] + dm[j] * o * (1 - squashed * squashed);
    di[j] = dcell * g * i * (1 - i);
    df[j] = dcell * c_before[j] * f * (1 - f);
    dg[j] = dcell * i * (1 - g * g);
    d_o[j] = dm[j] * squashed * o * (1 - o);
    dc[j] = dcell * f;
  }
}

// drecurred: by the last block of W_hh h. dh: the direct part to the previous state.
WHISKER_VECTORIZE void gru_row_backward(const float* gates, const float* recurred,
                                        const float* h_before, const float* dm, float* dh,
                                        float* dgates, float* drecurred, int64_t hidden) {
  const float *gr = gates, *gz = gates + hidden, *gn = gz + hidden;
  float *dr = dgates, *dz = dgates + hidden, *dn = dz + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float r = gr[j], z = gz[j], n = gn[j];
    const float d = dm[j];
    const float candidate = d * (1 - z) * (1 - n * n);
    dr[j] = candidate * recurred[j] * r * (1 - r);
    dz[j] = d * (h_before[j] - n) * z * (1 - z);
    dn[j] = candidate;
    drecurred[j] = candidate * r;
    dh[j] = d * z;
  }
}

}  // namespace

CellBackwardScratch::CellBackwardScratch(const RecurrentGeometry& g)
    : w_hh(g.steps >= steps_worth_copying ? g.gates() * g.hidden * padded_row(g.output()) : 0),
      dgates(g.steps * g.batch * padded_row(g.gates() * g.hidden)),
      drecurred(g.kind == RecurrentKind::gru ? g.steps * g.batch * g.hidden : 0),
      dresult(g.steps * g.batch * g.projection),
      dm(g.batch * g.hidden),
      zeros(std::max(g.hidden, g.output())) {}

CellBackward::CellBackward(Allocator& allocator, const std::function<void(const Gemm&)>& large_gemm,
                           const RecurrentGeometry& g, int64_t direction, const CellMemory& memory,
                           const CellGradients& gradients, float* dh, float* dc)
    : allocator_(allocator),
      gemm_(large_gemm),
      g_(g),
      steps_(g, direction, memory.lengths),
      m_(memory),
      d_(gradients),
      dh_(dh),
      dc_(dc),
      sizes_(g),
      copied_(sizes_.w_hh > 0),
      w_hh_(allocator, sizes_.w_hh),
      dgates_(allocator, sizes_.dgates),
      drecurred_(allocator, sizes_.drecurred),
      dresult_(allocator, sizes_.dresult),
      dm_(allocator, sizes_.dm),
      zeros_(allocator, sizes_.zeros) {
  std::fill_n(zeros_.data(), sizes_.zeros, 0.0f);
  for (int64_t row = 0; copied_ && row < gate_rows(); ++row) {
    std::copy_n(m_.p.w_hh + row * g.output(), g.output(),
                w_hh_.data() + row * padded_row(g.output()));
  }
  for (int64_t row = 0; row < g.steps * g.batch; ++row) {
    float* const begin = dgates_.data() + row * gate_stride();
    std::fill(begin + gate_rows(), begin + gate_stride(), 0.0f);
  }
}

// A gradient that vanishes over hundreds of steps passes through the denormal numbers.
void CellBackward::run(int64_t begin, int64_t end) {
  const FlushDenormals flush;
  const int64_t count = steps_.longest(begin, end);
  for (int64_t t = count; t < g_.steps; ++t) {
    for (int64_t n = begin; n < end; ++n) leave_nothing(t, n);
  }
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t t = steps_.step(i, count);
    const auto each = [&](auto&& fn) {
      parallel_ranges(end - begin, rows_grain(4 * g_.gates() * g_.hidden),
                      [&](int64_t first, int64_t last, int) {
                        const FlushDenormals flush_here;
                        for (int64_t n = begin + first; n < begin + last; ++n) fn(n);
                      });
    };
    // The gradient of h: from the next step and from y.
    each([&](int64_t n) {
      if (!steps_.valid(t, n)) return leave_nothing(t, n);
      float* arrived = g_.projection > 0 ? dresult_.data() + row_of(t, n) * g_.projection
                                         : dm_.data() + n * g_.hidden;
      const float* dh = dh_ + n * g_.output();
      if (d_.dy) {
        map([](float p, float q) { return p + q; }, arrived, g_.output(), dh,
            d_.dy + row_of(t, n) * g_.directions * g_.output());
      } else {
        std::copy_n(dh, g_.output(), arrived);
      }
    });
    if (g_.projection > 0) {
      gemm({.size = {end - begin, g_.hidden, g_.projection},
            .a = {dresult_.data() + row_of(t, begin) * g_.projection, g_.projection},
            .b = {m_.p.w_hr, g_.hidden},
            .c = {dm_.data() + begin * g_.hidden, g_.hidden}});
    }
    each([&](int64_t n) {
      if (steps_.valid(t, n)) row(t, n);
    });
    step_gemms(t, begin, end);
  }
}

// The gates' gradients, and the part of dh that does not pass W_hh.
void CellBackward::row(int64_t t, int64_t n) {
  const int64_t at = row_of(t, n);
  const int64_t before = steps_.before(t, n);
  const float* gates = m_.gates + at * gate_rows();
  const float* dm = dm_.data() + n * g_.hidden;
  float* dgates = dgates_row(t, n);
  float* dh = dh_ + n * g_.output();
  // The state before the step: kept, initial, or zeros.
  const auto state = [&](const float* kept, int64_t stride, const float* initial, int64_t extent) {
    if (before >= 0) return kept + row_of(before, n) * stride;
    return initial ? initial + n * extent : zeros_.data();
  };
  switch (g_.kind) {
    case RecurrentKind::rnn_tanh:
      tanh_row_backward(gates, dm, dgates, g_.hidden);
      break;
    case RecurrentKind::rnn_relu:
      relu_row_backward(gates, dm, dgates, g_.hidden);
      break;
    case RecurrentKind::lstm:
      lstm_row_backward(gates, m_.side + at * g_.hidden,
                        state(m_.side, g_.hidden, m_.c0, g_.hidden), dm, dc_ + n * g_.hidden,
                        dgates, g_.hidden);
      break;
    case RecurrentKind::gru:
      return gru_row_backward(gates, m_.side + at * g_.hidden,
                              state(m_.y, g_.directions * g_.hidden, m_.h0, g_.hidden), dm, dh,
                              dgates, drecurred(t, n), g_.hidden);
  }
  std::fill_n(dh, g_.output(), 0.0f);
}

// dh += dgates W_hh; rows of sequences that have no step t are zero.
void CellBackward::step_gemms(int64_t t, int64_t begin, int64_t end) {
  Gemm call{
      .size = {end - begin, g_.output(), is_gru() ? 2 * g_.hidden : gate_rows()},
      .a = {dgates_row(t, begin), gate_stride()},
      .b = {copied_ ? w_hh_.data() : m_.p.w_hh, copied_ ? padded_row(g_.output()) : g_.output()},
      .c = {dh_ + begin * g_.output(), g_.output(), 1}};
  gemm(call);
  if (!is_gru()) return;
  call.size.k = g_.hidden;
  call.a = {drecurred(t, begin), g_.hidden};
  call.b.data += 2 * g_.hidden * call.b.stride;
  gemm(call);
}

void CellBackward::leave_nothing(int64_t t, int64_t n) {
  std::fill_n(dgates_row(t, n), gate_rows(), 0.0f);
  if (is_gru()) std::fill_n(drecurred(t, n), g_.hidden, 0.0f);
  if (g_.projection > 0) {
    std::fill_n(dresult_.data() + row_of(t, n) * g_.projection, g_.projection, 0.0f);
  }
}

void CellBackward::finish() {
  const int64_t rows = g_.steps * g_.batch;
  if (d_.dx) {
    gemm_({.size = {rows, m_.inputs, gate_rows()},
           .a = {dgates_.data(), gate_stride()},
           .b = {m_.p.w_ih, m_.inputs},
           .c = {d_.dx, m_.inputs, d_.add_dx ? 1.0f : 0.0f}});
  }
  if (d_.p.w_ih) {
    gemm_({.size = {gate_rows(), m_.inputs, rows},
           .a = transposed(dgates_.data(), gate_stride()),
           .b = {m_.x, m_.inputs},
           .c = {d_.p.w_ih, m_.inputs}});
  }
  if (d_.p.w_hh) recurrent_weights();
  if (d_.p.b_ih || d_.p.b_hh) biases();
  if (d_.p.w_hr) {
    gemm_({.size = {g_.projection, g_.hidden, rows},
           .a = transposed(dresult_.data(), g_.projection),
           .b = {m_.m, g_.hidden},
           .c = {d_.p.w_hr, g_.hidden}});
  }
  if (d_.p.w_hh && m_.h0) add_initial_state();  // last: moves the gates' gradients
}

void CellBackward::add_outer(const float* dgates, const float* drecurred, const float* h,
                             int64_t stride, int64_t rows, bool first) {
  Gemm call{.size = {is_gru() ? 2 * g_.hidden : gate_rows(), g_.output(), rows},
            .a = transposed(dgates, gate_stride()),
            .b = {h, stride},
            .c = {d_.p.w_hh, g_.output(), first ? 0.0f : 1.0f}};
  gemm_(call);
  if (!is_gru()) return;
  call.size.m = g_.hidden;
  call.a = transposed(drecurred, g_.hidden);
  call.c.data += 2 * g_.hidden * g_.output();
  gemm_(call);
}

// The gradient of step t times the state of step t - 1, without the initial ones: one gemm over all
// steps, as y is zero after a sequence's end.
void CellBackward::recurrent_weights() {
  const int64_t stride = g_.directions * g_.output();
  const int64_t rows = (g_.steps - 1) * g_.batch;
  const int64_t gradient_from = steps_.backwards() ? 0 : 1;
  const int64_t state_from = steps_.backwards() ? 1 : 0;
  if (rows > 0) {
    add_outer(dgates_row(gradient_from, 0), drecurred(gradient_from, 0),
              m_.y + row_of(state_from, 0) * stride, stride, rows, true);
  } else {
    std::fill_n(d_.p.w_hh, gate_rows() * g_.output(), 0.0f);
  }
}

// In reverse a sequence begins at its own end: the gradients of these steps move to step 0.
void CellBackward::add_initial_state() {
  for (int64_t n = 0; n < g_.batch; ++n) {
    const int64_t t = steps_.backwards() ? steps_.length(n) - 1 : 0;
    if (t <= 0) continue;
    std::copy_n(dgates_row(t, n), gate_rows(), dgates_row(0, n));
    if (is_gru()) std::copy_n(drecurred(t, n), g_.hidden, drecurred(0, n));
  }
  add_outer(dgates_row(0, 0), drecurred(0, 0), m_.h0, g_.output(), g_.batch, false);
}

void CellBackward::biases() {
  const int64_t rows = g_.steps * g_.batch;
  const Scratch<float> sums(allocator_, gate_stride());
  column_sums(allocator_, dgates_.data(), rows, gate_stride(), sums.data());
  if (d_.p.b_ih) std::copy_n(sums.data(), gate_rows(), d_.p.b_ih);
  if (!d_.p.b_hh) return;
  std::copy_n(sums.data(), gate_rows(), d_.p.b_hh);
  if (is_gru()) {
    column_sums(allocator_, drecurred_.data(), rows, g_.hidden, d_.p.b_hh + 2 * g_.hidden);
  }
}

}  // namespace whisker::cpu
