// Casts make and round stand-ins.
#include "core/cpu/via_f32.h"

#include "core/backend/elementwise.h"

namespace whisker::cpu {
namespace {

bool narrow(const Tensor& x) {
  return x.defined() && x.dtype() == DType::bf16;
}

Tensor stand_in(const Tensor& x) {
  return empty(x.shape(), {.dtype = DType::f32, .device = x.device()});
}

}  // namespace

const Tensor& ViaF32::in(const Tensor& x) {
  if (!narrow(x)) return x;
  const Tensor& wide = inputs_.emplace_back(stand_in(x));
  backend_.elementwise().cast(x, wide);
  return wide;
}

const Tensor& ViaF32::out(const Tensor& y) {
  return narrow(y) ? results_.emplace_back(stand_in(y), y).first : y;
}

const Tensor& ViaF32::in_out(const Tensor& y) {
  const Tensor& wide = out(y);
  if (narrow(y)) backend_.elementwise().cast(y, wide);
  return wide;
}

ViaF32::~ViaF32() noexcept(false) {
  if (std::uncaught_exceptions() > exceptions_) return;
  scope_.reset();
  inputs_.clear();
  for (const auto& [wide, y] : results_) backend_.elementwise().cast(wide, y);
}

}  // namespace whisker::cpu
