// The element types of the CPU kernels. A loop is written once for both: load() reads, all computes
// in f32, store() writes and rounds to nearest even for bf16.
#pragma once

#include "core/tensor/dtype.h"

#include <cstdint>

namespace whisker::cpu {

inline float load(float x) {
  return x;
}
inline float load(bf16_t x) {
  return static_cast<float>(x);
}
inline void store(float& to, float x) {
  to = x;
}
// Member by member: GCC does not vectorise the assignment of a temporary bf16_t.
inline void store(bf16_t& to, float x) {
  to.bits = bf16_t::round(x);
}

/// Calls fn.template operator()<T>() for f32 and bf16; throws usage, naming `op`, for the others.
template <class Fn>
decltype(auto) visit_element(const char* op, DType dtype, Fn&& fn) {
  if (dtype == DType::f32) return fn.template operator()<float>();
  if (dtype == DType::bf16) return fn.template operator()<bf16_t>();
  fail(ErrorKind::usage,
       "{}: cpu computes in f32 and bf16, got {}. Convert with to(f32), or use device=reference "
       "for f64.",
       op, dtype);
}

/// Calls fn.template operator()<value>().
template <class Fn>
void visit_bool(bool value, Fn&& fn) {
  value ? fn.template operator()<true>() : fn.template operator()<false>();
}

/// Calls fn.template operator()<T>() with the unsigned integer of `bytes`, for copies that do not
/// look inside elements.
template <class Fn>
void visit_bits(int64_t bytes, Fn&& fn) {
  if (bytes == 1) return fn.template operator()<uint8_t>();
  if (bytes == 2) return fn.template operator()<uint16_t>();
  if (bytes == 4) return fn.template operator()<uint32_t>();
  fn.template operator()<uint64_t>();
}

}  // namespace whisker::cpu
