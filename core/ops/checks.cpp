// The failing side of the argument checks.
#include "core/ops/checks.h"

namespace whisker {

void fail_mismatch(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                   const Tensor& b) {
  if (!(a.device() == b.device())) {
    fail(ErrorKind::usage, "{}: {} {} is on {}, {} {} is on {}. Copy one of them with to({}).", op,
         a_name, a.shape(), a.device(), b_name, b.shape(), b.device(), a.device());
  }
  fail(ErrorKind::usage, "{}: {} {} is {}, {} {} is {}. Convert one of them with to({}).", op,
       a_name, a.shape(), a.dtype(), b_name, b.shape(), b.dtype(), a.dtype());
}

void fail_compute_dtype(const char* op, const char* name, const Tensor& x) {
  const char* choices = x.device().kind == DeviceKind::reference ? "f32 or f64"
                        : x.is_cuda()                            ? "f32, bf16 or f16"
                                                                 : "f32 or bf16";
  fail(ErrorKind::usage, "{}: expected {} of {} on {}, got {} {}. Convert it with to(f32).", op,
       name, choices, x.device(), x.dtype(), x.shape());
}

void check_activation(const char* op, const ActivationSpec& f) {
  if (f.kind == Activation::leaky_relu && !(f.slope >= 0)) {
    fail(ErrorKind::usage, "{}: expected a slope of leaky_relu of at least 0, got {}.", op,
         f.slope);
  }
}

void check_device(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                  const Tensor& b) {
  if (!(a.device() == b.device())) fail_mismatch(op, a_name, a, b_name, b);
}

void check_rank(const char* op, const char* name, const Tensor& x, int rank) {
  if (x.rank() != rank) {
    fail(ErrorKind::usage, "{}: expected {} with {} axes, got shape {}. Use reshape().", op, name,
         rank, x.shape());
  }
}

void check_vector(const char* op, const char* name, const Tensor& x, int64_t extent,
                  const Tensor& like, const char* like_name) {
  if (x.rank() != 1 || x.count() != extent) {
    fail(ErrorKind::usage, "{}: expected {} of shape ({}) for {} {}, got {}.", op, name, extent,
         like_name, like.shape(), x.shape());
  }
  check_device(op, like_name, like, name, x);
}

void check_not_empty(const char* op, const char* name, const Tensor& x) {
  if (x.count() == 0) {
    fail(ErrorKind::usage, "{}: {} {} has no elements. Leave empty batches out.", op, name,
         x.shape());
  }
}

void check_index(const char* op, const Tensor& index, const Tensor& x, int64_t extent) {
  if (index.dtype() != DType::i64) {
    fail(ErrorKind::usage, "{}: expected an index of i64, got {} {}. Convert it with to(i64).", op,
         index.dtype(), index.shape());
  }
  check_device(op, "x", x, "index", index);
  if (index.is_cuda()) return;  // kernels skip bad indices and set the device's error word
  for (const int64_t i : index.data<int64_t>()) {
    if (i < 0 || i >= extent) {
      fail(ErrorKind::usage, "{}: index {} is outside [0, {}): x {}, index {}.", op, i, extent,
           x.shape(), index.shape());
    }
  }
}

void check_attribute(const char* op, const char* name, const Pair& value, int64_t low) {
  for (const int64_t part : {value.h, value.w}) {
    if (part < low || part > max_attribute) {
      fail(ErrorKind::usage, "{}: expected {} in [{}, {}], got ({},{}).", op, name, low,
           max_attribute, value.h, value.w);
    }
  }
}

AroundAxis around(const Shape& shape, int axis) {
  AroundAxis result;
  for (int i = 0; i < shape.rank(); ++i) {
    (i < axis ? result.outer : i == axis ? result.extent : result.inner) *= shape[i];
  }
  return result;
}

}  // namespace whisker
