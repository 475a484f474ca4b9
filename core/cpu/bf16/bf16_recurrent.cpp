// Recurrent layers in bf16: operands are widened once per call, states and gates stay f32, and the
// gemms over all steps are the CPU's own bf16 where it has it.
#include "core/cpu/bf16/bf16.h"
#include "core/cpu/bf16/bf16_via_f32.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/vectorize.h"

#if WHISKER_ONEDNN
#include "core/cpu/onednn/dnnl_gemm.h"
#endif

namespace whisker::cpu {
namespace {

RecurrentInputs wide(Widened& t, const RecurrentInputs& in) {
  RecurrentInputs result = in;
  result.x = t.in(in.x);
  result.initial = {.h = t.in(in.initial.h), .c = t.in(in.initial.c)};
  for (RecurrentParameters& p : result.parameters) {
    p = {t.in(p.w_ih), t.in(p.w_hh), t.in(p.b_ih), t.in(p.b_hh), t.in(p.w_hr)};
  }
  return result;
}

// Rows of a matrix, rounded and one behind the other.
WHISKER_VECTORIZE void round_row(const float* from, bf16_t* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(to[i], from[i]);
}

[[maybe_unused]] void round_rows(const float* from, int64_t stride, int64_t rows, int64_t columns,
                                 bf16_t* to) {
  parallel_ranges(rows, rows_grain(columns), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      round_row(from + r * stride, to + r * columns, columns);
    }
  });
}

}  // namespace

#if WHISKER_ONEDNN

void Bf16Backend::gemm_in_bf16(const Gemm& g) {
  const GemmRequest request{.m = g.m,
                            .n = g.n,
                            .k = g.k,
                            .transpose_a = g.transpose_a,
                            .transpose_b = g.transpose_b,
                            .y = DType::f32};
  if (g.beta != 0 || g.ldc != g.n || !native(request)) return gemm(g);
  const Scratch<bf16_t> a = scratch<bf16_t>(g.m * g.k);
  const Scratch<bf16_t> b = scratch<bf16_t>(g.k * g.n);
  round_rows(g.a, g.lda, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, a.data());
  round_rows(g.b, g.ldb, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, b.data());
  gemms_->run(allocator_, request, a.data(), b.data(), g.c);
}

#else

void Bf16Backend::gemm_in_bf16(const Gemm& g) {
  gemm(g);
}

#endif

void Bf16Backend::recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                            const RecurrentOutputs& out) {
  if (in_f32("recurrent", in.x)) return CpuBackend::recurrent(g, in, out);
  const auto in_bf16 = [this](const Gemm& gemm) { gemm_in_bf16(gemm); };
  widened(*this, [&](Widened& t) {
    run_recurrent(in_bf16, as_f32(g), wide(t, in),
                  {.y = t.out(out.y),
                   .last = {.h = t.out(out.last.h), .c = t.out(out.last.c)},
                   .reserve = out.reserve});
  });
}

void Bf16Backend::recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                     const RecurrentOutputs& out,
                                     const RecurrentGradients& gradients) {
  if (in_f32("recurrent", in.x)) return CpuBackend::recurrent_backward(g, in, out, gradients);
  const auto in_bf16 = [this](const Gemm& gemm) { gemm_in_bf16(gemm); };
  widened(*this, [&](Widened& t) {
    RecurrentGradients d = gradients;
    d.dy = t.in(d.dy);
    d.dlast = {.h = t.in(d.dlast.h), .c = t.in(d.dlast.c)};
    d.dx = t.out(d.dx);
    d.dinitial = {.h = t.out(d.dinitial.h), .c = t.out(d.dinitial.c)};
    for (RecurrentParameters& p : d.dparameters) {
      p = {t.out(p.w_ih), t.out(p.w_hh), t.out(p.b_ih), t.out(p.b_hh), t.out(p.w_hr)};
    }
    run_recurrent_backward(in_bf16, as_f32(g), wide(t, in),
                           {.y = t.in(out.y), .last = {}, .reserve = out.reserve}, d);
  });
}

}  // namespace whisker::cpu
