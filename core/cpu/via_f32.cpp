// Stand-ins are workspace; casts make and round them.
#include "core/cpu/via_f32.h"

#include "core/backend/elementwise.h"

namespace whisker::cpu {
namespace {

bool narrow(const Tensor& x) {
  return x.defined() && x.dtype() == DType::bf16;
}

}  // namespace

const Tensor& ViaF32::in(const Tensor& x) {
  if (!narrow(x)) return x;
  const Tensor& wide = stand_in(x);
  backend_.elementwise().cast(x, wide);
  return wide;
}

const Tensor& ViaF32::out(const Tensor& y) {
  if (!narrow(y)) return y;
  const Tensor& wide = stand_in(y);
  results_.emplace_back(wide, y);
  return wide;
}

const Tensor& ViaF32::in_out(const Tensor& y) {
  const Tensor& wide = in(y);
  if (narrow(y)) results_.emplace_back(wide, y);
  return wide;
}

void ViaF32::finish() {
  for (const auto& [wide, y] : results_) backend_.elementwise().cast(wide, y);
}

const Tensor& ViaF32::stand_in(const Tensor& x) {
  const MemoryScope scope(MemoryCategory::workspace);
  return stand_ins_.emplace_back(empty(x.shape(), {.dtype = DType::f32, .device = x.device()}));
}

}  // namespace whisker::cpu
