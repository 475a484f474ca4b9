// Elementwise arithmetic. Every backward is written with recorded operators, so that gradients of
// gradients work to any order.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/ops/checks.h"

namespace whisker {
namespace {

Tensor binary(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  check_alike(name, "a", a, "b", b);
  check_computes(name, "a", a);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  const Tensor y = empty(shape, a.options());
  if (y.count() > 0) {
    backend_of(a.device())
        .elementwise()
        .binary(op, BroadcastGeometry::of(a.shape(), b.shape(), shape), {.a = a, .b = b}, y);
  }
  return y;
}

// Not recorded: the caller does, or the result has no derivative.
Tensor unary(const char* name, UnarySpec spec, const Tensor& x) {
  check_computes(name, "x", x);
  const Tensor y = empty_like(x);
  if (y.count() > 0) backend_of(x.device()).elementwise().unary(spec, x, y);
  return y;
}

Tensor pick(const char* name, BinaryOp op, CompareOp pick_a, const Tensor& a, const Tensor& b) {
  const Tensor y = binary(name, op, a, b);
  record(
      name, {&a, &b}, y,
      [pick_a, a_shape = a.shape(), b_shape = b.shape(), a = save(a), b = save(b)](Gradients& g) {
        const Tensor from_a =
            pick_a == CompareOp::greater_equal ? greater_equal(a(g), b(g)) : less_equal(a(g), b(g));
        const Tensor none = zeros(g.dy().shape(), g.dy().options());
        if (g.needs(0)) g.accumulate_grad(0, sum_to(where(from_a, g.dy(), none), a_shape));
        if (g.needs(1)) g.accumulate_grad(1, sum_to(where(from_a, none, g.dy()), b_shape));
      });
  return y;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const Tensor y = binary("add", BinaryOp::add, a, b);
  record("add", {&a, &b}, y, [a_shape = a.shape(), b_shape = b.shape()](Gradients& g) {
    if (g.needs(0)) g.accumulate_grad(0, sum_to(g.dy(), a_shape));
    if (g.needs(1)) g.accumulate_grad(1, sum_to(g.dy(), b_shape));
  });
  return y;
}

Tensor sub(const Tensor& a, const Tensor& b) {
  const Tensor y = binary("sub", BinaryOp::sub, a, b);
  record("sub", {&a, &b}, y, [a_shape = a.shape(), b_shape = b.shape()](Gradients& g) {
    if (g.needs(0)) g.accumulate_grad(0, sum_to(g.dy(), a_shape));
    if (g.needs(1)) g.accumulate_grad(1, affine(sum_to(g.dy(), b_shape), -1, 0));
  });
  return y;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  const Tensor y = binary("mul", BinaryOp::mul, a, b);
  record("mul", {&a, &b}, y,
         [a = save_if(needs_grad(b), a), b = save_if(needs_grad(a), b), a_shape = a.shape(),
          b_shape = b.shape()](Gradients& g) {
           if (g.needs(0)) g.accumulate_grad(0, sum_products_to(g.dy(), b(g), a_shape));
           if (g.needs(1)) g.accumulate_grad(1, sum_products_to(g.dy(), a(g), b_shape));
         });
  return y;
}

Tensor div(const Tensor& a, const Tensor& b) {
  const Tensor y = binary("div", BinaryOp::div, a, b);
  record("div", {&a, &b}, y,
         [a_shape = a.shape(), b_shape = b.shape(), b = save(b),
          y = needs_grad(b) ? save_output(y) : Saved()](Gradients& g) {
           const Tensor da = div(g.dy(), b(g));
           if (g.needs(0)) g.accumulate_grad(0, sum_to(da, a_shape));
           if (g.needs(1)) g.accumulate_grad(1, affine(sum_products_to(da, y(g), b_shape), -1, 0));
         });
  return y;
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return pick("maximum", BinaryOp::maximum, CompareOp::greater_equal, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return pick("minimum", BinaryOp::minimum, CompareOp::less_equal, a, b);
}

Tensor affine(const Tensor& x, double scale, double shift) {
  const Tensor y = unary("affine", {.op = UnaryOp::affine, .a = scale, .b = shift}, x);
  describe_op("scale {}, shift {}", scale, shift);
  record("affine", {&x}, y,
         [scale](Gradients& g) { g.accumulate_grad(0, affine(g.dy(), scale, 0)); });
  return y;
}

Tensor exp(const Tensor& x) {
  const Tensor y = unary("exp", {.op = UnaryOp::exp}, x);
  record("exp", {&x}, y,
         [y = save_output(y)](Gradients& g) { g.accumulate_grad(0, mul(g.dy(), y(g))); });
  return y;
}

Tensor log(const Tensor& x) {
  const Tensor y = unary("log", {.op = UnaryOp::log}, x);
  record("log", {&x}, y, [x = save(x)](Gradients& g) { g.accumulate_grad(0, div(g.dy(), x(g))); });
  return y;
}

Tensor sqrt(const Tensor& x) {
  const Tensor y = unary("sqrt", {.op = UnaryOp::sqrt}, x);
  record("sqrt", {&x}, y, [y = save_output(y)](Gradients& g) {
    g.accumulate_grad(0, affine(div(g.dy(), y(g)), 0.5, 0));
  });
  return y;
}

Tensor reciprocal(const Tensor& x) {
  const Tensor y = unary("reciprocal", {.op = UnaryOp::reciprocal}, x);
  record("reciprocal", {&x}, y, [y = save_output(y)](Gradients& g) {
    const Tensor square = mul(y(g), y(g));
    g.accumulate_grad(0, affine(mul(g.dy(), square), -1, 0));
  });
  return y;
}

Tensor abs(const Tensor& x) {
  const Tensor y = unary("abs", {.op = UnaryOp::abs}, x);
  record("abs", {&x}, y, [x = save(x)](Gradients& g) {
    g.accumulate_grad(0, mul(g.dy(), unary("abs", {.op = UnaryOp::sign}, x(g))));
  });
  return y;
}

Tensor pow(const Tensor& x, double exponent) {
  const Tensor y = unary("pow", {.op = UnaryOp::pow, .a = exponent}, x);
  describe_op("exponent {}", exponent);
  record("pow", {&x}, y, [exponent, x = save(x)](Gradients& g) {
    // x^0 is constant, also at 0, where 0 * x^-1 would be NaN.
    const Tensor slope = exponent == 0 ? zeros(x(g).shape(), x(g).options())
                                       : affine(pow(x(g), exponent - 1), exponent, 0);
    g.accumulate_grad(0, mul(g.dy(), slope));
  });
  return y;
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high)) {
    fail(ErrorKind::usage, "clamp: expected low <= high, got {} and {} for x {}.", low, high,
         x.shape());
  }
  const Tensor y = unary("clamp", {.op = UnaryOp::clamp, .a = low, .b = high}, x);
  describe_op("low {}, high {}", low, high);
  record("clamp", {&x}, y, [low, high, x = save(x)](Gradients& g) {
    g.accumulate_grad(
        0, mul(g.dy(), unary("clamp", {.op = UnaryOp::inside, .a = low, .b = high}, x(g))));
  });
  return y;
}

}  // namespace whisker
