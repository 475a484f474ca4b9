// A cell's forward pass. One gemm computes W_ih x of all steps into the gates; each step adds W_hh
// times the previous state.
#include "core/cpu/kernels/recurrent_cell.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/vector_math.h"
#include "core/vectorize.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

// Gemms with few rows are faster on a matrix that is transposed once: x1.4 for 64 rows, x2 for 16.
// to (columns, rows) = from (rows, columns), in squares that stay in the cache; rows of `to` are
// padded.
void transpose(const float* from, float* to, int64_t rows, int64_t columns) {
  constexpr int64_t side = 32;
  const int64_t stride = padded_row(rows);
  const int64_t blocks = (rows + side - 1) / side;
  parallel_each(blocks, pointwise_grain / (side * columns) + 1, [&](int64_t block, int) {
    const int64_t first = block * side, last = std::min(first + side, rows);
    for (int64_t c0 = 0; c0 < columns; c0 += side) {
      for (int64_t c = c0; c < std::min(c0 + side, columns); ++c) {
        for (int64_t r = first; r < last; ++r) to[c * stride + r] = from[r * columns + c];
      }
    }
  });
}

// gates (gates hidden): in, W_ih x + W_hh h; out, after their functions. bias (gates hidden): of
// both gemms.

WHISKER_VECTORIZE void tanh_row(float* z, const float* bias, float* h, int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) h[j] = z[j] = vector_tanh(z[j] + bias[j]);
}

WHISKER_VECTORIZE void relu_row(float* z, const float* bias, float* h, int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float sum = z[j] + bias[j];
    h[j] = z[j] = sum < 0 ? 0 : sum;
  }
}

// c: the cell before the step, then after it, also written to c_kept. m: the result.
WHISKER_VECTORIZE void lstm_row(float* gates, const float* bias, float* c, float* c_kept, float* m,
                                int64_t hidden) {
  float *gi = gates, *gf = gates + hidden, *gg = gf + hidden, *go = gg + hidden;
  const float *bi = bias, *bf = bias + hidden, *bg = bf + hidden, *bo = bg + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = vector_sigmoid(gi[j] + bi[j]);
    const float f = vector_sigmoid(gf[j] + bf[j]);
    const float g = vector_tanh(gg[j] + bg[j]);
    const float o = vector_sigmoid(go[j] + bo[j]);
    const float cell = f * c[j] + i * g;
    gi[j] = i;
    gf[j] = f;
    gg[j] = g;
    go[j] = o;
    c[j] = cell;
    c_kept[j] = cell;
    m[j] = o * vector_tanh(cell);
  }
}

// gates holds only W_ih x in its last block, recurred the last block of W_hh h (out: with its
// bias). h: the state before the step, then after it.
WHISKER_VECTORIZE void gru_row(float* gates, const float* bias, float* recurred,
                               const float* recurred_bias, float* h, int64_t hidden) {
  float *gr = gates, *gz = gates + hidden, *gn = gz + hidden;
  const float *br = bias, *bz = bias + hidden, *bn = bz + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float r = vector_sigmoid(gr[j] + br[j]);
    const float z = vector_sigmoid(gz[j] + bz[j]);
    const float u = recurred[j] + recurred_bias[j];
    const float n = vector_tanh(gn[j] + bn[j] + r * u);
    gr[j] = r;
    gz[j] = z;
    gn[j] = n;
    recurred[j] = u;
    h[j] = n + z * (h[j] - n);
  }
}

void copy_or_clear(const float* from, float* to, int64_t count) {
  from ? std::copy_n(from, count, to) : std::fill_n(to, count, 0.0f);
}

}  // namespace

int64_t CellSteps::longest(int64_t begin, int64_t end) const {
  int64_t longest = 0;
  for (int64_t n = begin; n < end; ++n) longest = std::max(longest, length(n));
  return longest;
}

CellForwardScratch::CellForwardScratch(const RecurrentGeometry& g)
    : w_hh_t(g.steps >= steps_worth_copying ? padded_row(g.gates() * g.hidden) * g.output() : 0),
      bias((g.gates() + 1) * g.hidden),
      projected(g.batch * g.projection) {}

CellForward::CellForward(Allocator& allocator, const std::function<void(const Gemm&)>& large_gemm,
                         const RecurrentGeometry& g, int64_t direction, const CellMemory& memory,
                         float* h, float* c)
    : g_(g),
      steps_(g, direction, memory.lengths),
      m_(memory),
      h_(h),
      c_(c),
      sizes_(g),
      transposed_(sizes_.w_hh_t > 0),
      w_hh_t_(allocator, sizes_.w_hh_t),
      bias_(allocator, sizes_.bias),
      projected_(allocator, sizes_.projected) {
  const int64_t rows = g.gates() * g.hidden;
  if (transposed_) transpose(m_.p.w_hh, w_hh_t_.data(), rows, g.output());
  std::fill_n(bias_.data(), rows + g.hidden, 0.0f);
  if (g.bias) {
    const int64_t added = g.kind == RecurrentKind::gru ? 2 * g.hidden : rows;
    map([](float p, float q) { return p + q; }, bias_.data(), added, m_.p.b_ih, m_.p.b_hh);
    std::copy(m_.p.b_ih + added, m_.p.b_ih + rows, bias_.data() + added);
    std::copy(m_.p.b_hh + added, m_.p.b_hh + rows, bias_.data() + rows);
  }
  copy_or_clear(m_.h0, h_, g.batch * g.output());
  if (c_) copy_or_clear(m_.c0, c_, g.batch * g.hidden);
  large_gemm({.size = {g.steps * g.batch, rows, m_.inputs},
              .a = {m_.x, m_.inputs},
              .b = transposed(m_.p.w_ih, m_.inputs),
              .c = {m_.gates, rows}});
}

void CellForward::run(int64_t begin, int64_t end) {
  const int64_t count = steps_.longest(begin, end);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = steps_.step(i, count);
    step_gemms(t, begin, end);
    parallel_each(end - begin, rows_grain(4 * g_.gates() * g_.hidden), [&](int64_t row_index, int) {
      const int64_t n = begin + row_index;
      steps_.valid(t, n) ? row(t, n) : leave_nothing(t, n);
    });
    if (g_.projection > 0) project(t, begin, end);
  }
  for (int64_t t = count; t < g_.steps; ++t) {
    for (int64_t n = begin; n < end; ++n) leave_nothing(t, n);
  }
}

void CellForward::step_gemms(int64_t t, int64_t begin, int64_t end) {
  const int64_t rows = g_.gates() * g_.hidden;
  const bool gru = g_.kind == RecurrentKind::gru;
  const int64_t added = gru ? 2 * g_.hidden : rows;  // added to W_ih x
  Gemm call{.size = {end - begin, added, g_.output()},
            .a = {h_ + begin * g_.output(), g_.output()},
            .b = {transposed_ ? w_hh_t_.data() : m_.p.w_hh,
                  transposed_ ? padded_row(rows) : g_.output(), !transposed_},
            .c = {gates(t, begin), rows, 1}};
  gemm(call);
  if (!gru) return;
  call.size.n = g_.hidden;
  call.b.data += transposed_ ? added : added * g_.output();
  call.c = {m_.side + (t * g_.batch + begin) * g_.hidden, g_.hidden};
  gemm(call);
}

void CellForward::row(int64_t t, int64_t n) {
  const int64_t at = (t * g_.batch + n) * g_.hidden;
  float* h = h_ + n * g_.output();
  switch (g_.kind) {
    case RecurrentKind::rnn_tanh:
      tanh_row(gates(t, n), bias_.data(), h, g_.hidden);
      break;
    case RecurrentKind::rnn_relu:
      relu_row(gates(t, n), bias_.data(), h, g_.hidden);
      break;
    case RecurrentKind::lstm:
      lstm_row(gates(t, n), bias_.data(), c_ + n * g_.hidden, m_.side + at,
               g_.projection > 0 ? m_.m + at : h, g_.hidden);
      break;
    case RecurrentKind::gru:
      gru_row(gates(t, n), bias_.data(), m_.side + at, bias_.data() + 3 * g_.hidden, h, g_.hidden);
      break;
  }
  if (g_.projection == 0) std::copy_n(h, g_.hidden, result(t, n));
}

void CellForward::project(int64_t t, int64_t begin, int64_t end) {
  gemm({.size = {end - begin, g_.projection, g_.hidden},
        .a = {m_.m + (t * g_.batch + begin) * g_.hidden, g_.hidden},
        .b = transposed(m_.p.w_hr, g_.hidden),
        .c = {projected_.data() + begin * g_.projection, g_.projection}});
  for (int64_t n = begin; n < end; ++n) {
    if (!steps_.valid(t, n)) continue;
    const float* from = projected_.data() + n * g_.projection;
    std::copy_n(from, g_.projection, h_ + n * g_.projection);
    std::copy_n(from, g_.projection, result(t, n));
  }
}

void CellForward::leave_nothing(int64_t t, int64_t n) {
  std::fill_n(result(t, n), g_.output(), 0.0f);
  if (g_.projection > 0) std::fill_n(m_.m + (t * g_.batch + n) * g_.hidden, g_.hidden, 0.0f);
}

}  // namespace whisker::cpu
