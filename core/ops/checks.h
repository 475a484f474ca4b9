// Argument checks shared by the operators. The passing path costs a few compares and allocates
// nothing; messages are built only when a check fails.
#pragma once

#include "core/backend/geometry.h"
#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <limits>

namespace whisker {

/// Largest stride, padding, kernel or dilation: products of two of them fit 64 bits.
inline constexpr int64_t max_attribute = std::numeric_limits<int32_t>::max();

/// True when `device` computes in `dtype`; every device stores and casts every type.
constexpr bool computes_in(DeviceKind device, DType dtype) {
  if (dtype == DType::f32) return true;
  if (device == DeviceKind::reference) return dtype == DType::f64;
  return dtype == DType::bf16 || (dtype == DType::f16 && device == DeviceKind::cuda);
}

[[noreturn]] void fail_mismatch(const char* op, const char* a_name, const Tensor& a,
                                const char* b_name, const Tensor& b);
[[noreturn]] void fail_compute_dtype(const char* op, const char* name, const Tensor& x);

/// Both on one device and of one dtype.
inline void check_alike(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                        const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.device() == b.device()))
    fail_mismatch(op, a_name, a, b_name, b);
}

inline void check_computes(const char* op, const char* name, const Tensor& x) {
  if (!computes_in(x.device().kind, x.dtype())) fail_compute_dtype(op, name, x);
}

/// leaky_relu's slope is at least 0: its gradient follows from the sign of its output.
void check_activation(const char* op, const ActivationSpec& f);
/// Both on one device; dtypes may differ.
void check_device(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                  const Tensor& b);
void check_rank(const char* op, const char* name, const Tensor& x, int rank);
/// `x` is a vector of `extent` elements, alike with `like`.
void check_vector(const char* op, const char* name, const Tensor& x, int64_t extent,
                  const Tensor& like, const char* like_name);
void check_not_empty(const char* op, const char* name, const Tensor& x);
/// i64 on x's device; on the host also every value in [0, extent).
void check_index(const char* op, const Tensor& index, const Tensor& x, int64_t extent);
/// low <= value <= max_attribute for both parts.
void check_attribute(const char* op, const char* name, const Pair& value, int64_t low);

/// The shape around one axis: extents before it, of it, and after it, multiplied out.
struct AroundAxis {
  int64_t outer = 1, extent = 1, inner = 1;
};
AroundAxis around(const Shape& shape, int axis);

}  // namespace whisker
