// Recurrent layers.
#include "core/cpu/backend_class.h"
#include "core/cpu/bf16.h"
#include "core/cpu/widened.h"
#include "core/reference/reference_backend.h"

namespace whisker::cpu {

int64_t CpuBackend::recurrent_reserve_bytes(const RecurrentGeometry&) {
  return 0;
}

void CpuBackend::recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                           const RecurrentOutputs& out) {
  ReferenceBackend().recurrent(g, in, out);
}

void CpuBackend::recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                    const RecurrentOutputs& out,
                                    const RecurrentGradients& gradients) {
  ReferenceBackend().recurrent_backward(g, in, out, gradients);
}

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

}  // namespace

void Bf16Backend::recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                            const RecurrentOutputs& out) {
  if (in_f32("recurrent", in.x)) return CpuBackend::recurrent(g, in, out);
  widened(*this, [&](Widened& t) {
    CpuBackend::recurrent(as_f32(g), wide(t, in),
                          {.y = t.out(out.y),
                           .last = {.h = t.out(out.last.h), .c = t.out(out.last.c)},
                           .reserve = out.reserve});
  });
}

void Bf16Backend::recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                     const RecurrentOutputs& out,
                                     const RecurrentGradients& gradients) {
  if (in_f32("recurrent", in.x)) return CpuBackend::recurrent_backward(g, in, out, gradients);
  widened(*this, [&](Widened& t) {
    RecurrentGradients d = gradients;
    d.dy = t.in(d.dy);
    d.dlast = {.h = t.in(d.dlast.h), .c = t.in(d.dlast.c)};
    d.dx = t.out(d.dx);
    d.dinitial = {.h = t.out(d.dinitial.h), .c = t.out(d.dinitial.c)};
    for (RecurrentParameters& p : d.dparameters) {
      p = {t.out(p.w_ih), t.out(p.w_hh), t.out(p.b_ih), t.out(p.b_hh), t.out(p.w_hr)};
    }
    CpuBackend::recurrent_backward(as_f32(g), wide(t, in),
                                   {.y = t.in(out.y), .last = {}, .reserve = out.reserve}, d);
  });
}

}  // namespace whisker::cpu
