// Comparisons (bool results, no gradient), where, and conversion between element types.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/ops/checks.h"

namespace whisker {
namespace {

Tensor compare(const char* name, CompareOp op, const Tensor& a, const Tensor& b) {
  check_alike(name, "a", a, "b", b);
  if (is_floating(a.dtype())) check_computes(name, "a", a);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  const Tensor y = empty(shape, {.dtype = DType::boolean, .device = a.device()});
  if (y.count() > 0) {
    backend_of(a.device())
        .elementwise()
        .compare(op, BroadcastGeometry::of(a.shape(), b.shape(), shape), {.a = a, .b = b}, y);
  }
  return y;
}

}  // namespace

Tensor equal(const Tensor& a, const Tensor& b) {
  return compare("equal", CompareOp::equal, a, b);
}
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare("not_equal", CompareOp::not_equal, a, b);
}
Tensor less(const Tensor& a, const Tensor& b) {
  return compare("less", CompareOp::less, a, b);
}
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare("less_equal", CompareOp::less_equal, a, b);
}
Tensor greater(const Tensor& a, const Tensor& b) {
  return compare("greater", CompareOp::greater, a, b);
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compare("greater_equal", CompareOp::greater_equal, a, b);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check_alike("where", "a", a, "b", b);
  check_device("where", "condition", condition, "a", a);
  if (condition.dtype() != DType::boolean) {
    fail(ErrorKind::usage,
         "where: expected a condition of bool, got {} {}. Use not_equal(x, zero).",
         condition.dtype(), condition.shape());
  }
  const Shape shape =
      broadcast_shapes(condition.shape(), broadcast_shapes(a.shape(), b.shape(), "where"), "where");
  const Tensor y = empty(shape, a.options());
  const Tensor full_condition = broadcast_to(condition, shape);
  if (y.count() > 0) {
    const NoGrad off_tape;
    backend_of(a.device())
        .elementwise()
        .where(full_condition, broadcast_to(a, shape), broadcast_to(b, shape), y);
  }
  record("where", {&a, &b}, y,
         [a_shape = a.shape(), b_shape = b.shape(), c = save(full_condition)](Gradients& g) {
           const Tensor none = zeros(g.dy().shape(), g.dy().options());
           if (g.needs(0)) g.accumulate_grad(0, sum_to(where(c(g), g.dy(), none), a_shape));
           if (g.needs(1)) g.accumulate_grad(1, sum_to(where(c(g), none, g.dy()), b_shape));
         });
  return y;
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor y = empty(x.shape(), {.dtype = dtype, .device = x.device()});
  if (y.count() > 0) backend_of(x.device()).elementwise().cast(x, y);
  if (is_floating(dtype)) {
    record("cast", {&x}, y,
           [from = x.dtype()](Gradients& g) { g.accumulate_grad(0, cast(g.dy(), from)); });
  }
  return y;
}

}  // namespace whisker
