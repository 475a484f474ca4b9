// Reductions over axes; sum_to and sum_products_to, the reverse of broadcasting. Backward is
// written with recorded operators throughout.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/reduction.h"
#include "core/ops/checks.h"

#include <array>

namespace whisker {
namespace {

AxisMask mask_of(const char* op, const Shape& shape, const Axes& axes) {
  AxisMask mask{};
  if (axes.empty()) mask.fill(true);
  for (const int axis : axes) {
    bool& reduced = mask[static_cast<size_t>(shape.normalize_axis(axis, op))];
    if (reduced) fail(ErrorKind::usage, "{}: axis {} of {} is given twice.", op, axis, shape);
    reduced = true;
  }
  return mask;
}

void describe_axes(const Shape& shape, const AxisMask& mask) {
  std::string axes;
  for (int i = 0; op_attributes && i < shape.rank(); ++i) {
    if (mask[static_cast<size_t>(i)]) axes += fmt::format(" {}", i);
  }
  describe_op("axes{}", axes);
}

// The axes over which the reverse of broadcasting from `shape` sums x.
AxisMask mask_to(const char* op, const Shape& x, const Shape& shape) {
  const int added = x.rank() - shape.rank();
  AxisMask mask{};
  bool fits = added >= 0;
  for (int i = 0; fits && i < x.rank(); ++i) {
    const int64_t wanted = i < added ? 1 : shape[i - added];
    mask[static_cast<size_t>(i)] = i < added || (wanted == 1 && x[i] != 1);
    fits = wanted == 1 || wanted == x[i];
  }
  if (!fits) fail(ErrorKind::usage, "{}: shape {} does not broadcast to x {}.", op, shape, x);
  return mask;
}

// The result's shape with reduced axes kept as 1, or dropped.
Shape reduced_shape(const Shape& shape, const AxisMask& mask, bool keep_axes) {
  std::array<int64_t, Shape::max_rank> extents{};
  size_t rank = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!mask[static_cast<size_t>(i)]) {
      extents[rank++] = shape[i];
    } else if (keep_axes) {
      extents[rank++] = 1;
    }
  }
  return Shape(std::span<const int64_t>(extents.data(), rank));
}

// Not recorded. An empty sum is 0; other empty reductions have no value.
Tensor reduce(const char* name, ReduceOp op, const Tensor& x, const AxisMask& mask,
              const Shape& shape) {
  check_computes(name, "x", x);
  if (x.count() == 0 && shape.count() > 0) {
    if (op == ReduceOp::sum) return zeros(shape, x.options());
    fail(ErrorKind::usage, "{}: x {} has no elements to reduce.", name, x.shape());
  }
  const Tensor y = empty(shape, x.options());
  if (y.count() > 0) {
    backend_of(x.device()).reduction().reduce(op, ReduceGeometry::of(x.shape(), mask), x, y);
  }
  return y;
}

Tensor masked_sum(const Tensor& x, const AxisMask& mask, const Shape& shape) {
  const Tensor y = reduce("sum", ReduceOp::sum, x, mask, shape);
  describe_axes(x.shape(), mask);
  record("sum", {&x}, y, [kept = reduced_shape(x.shape(), mask, true)](Gradients& g) {
    g.accumulate_broadcast_grad(0, reshape(g.dy(), kept));
  });
  return y;
}

Tensor extremum(const char* name, ReduceOp op, const Tensor& x, const Axes& axes,
                ReduceOptions options) {
  const AxisMask mask = mask_of(name, x.shape(), axes);
  const Tensor y = reduce(name, op, x, mask, reduced_shape(x.shape(), mask, options.keep_axes));
  describe_axes(x.shape(), mask);
  record(name, {&x}, y,
         [kept = reduced_shape(x.shape(), mask, true), mask, x = save(x),
          y = save_output(y)](Gradients& g) {
           Tensor weight;  // 1 / (number of equal extrema) at each of them, else 0
           {
             const NoGrad constant;
             weight = cast(equal(x(g), reshape(y(g), kept)), x(g).dtype());
             weight = div(weight, masked_sum(weight, mask, kept));
           }
           g.accumulate_grad(0, mul(reshape(g.dy(), kept), weight));
         });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, ReduceOptions options) {
  const AxisMask mask = mask_of("sum", x.shape(), axes);
  return masked_sum(x, mask, reduced_shape(x.shape(), mask, options.keep_axes));
}

Tensor mean(const Tensor& x, const Axes& axes, ReduceOptions options) {
  const AxisMask mask = mask_of("mean", x.shape(), axes);
  const Shape shape = reduced_shape(x.shape(), mask, options.keep_axes);
  const Tensor y = reduce("mean", ReduceOp::mean, x, mask, shape);
  describe_axes(x.shape(), mask);
  record("mean", {&x}, y,
         [x_shape = x.shape(), kept = reduced_shape(x.shape(), mask, true)](Gradients& g) {
           if (x_shape.count() == 0) {
             g.accumulate_grad(0, zeros(x_shape, g.dy().options()));
             return;
           }
           const double scale =
               static_cast<double>(kept.count()) / static_cast<double>(x_shape.count());
           g.accumulate_broadcast_grad(0, reshape(affine(g.dy(), scale, 0), kept));
         });
  return y;
}

Tensor max(const Tensor& x, const Axes& axes, ReduceOptions options) {
  return extremum("max", ReduceOp::max, x, axes, options);
}

Tensor min(const Tensor& x, const Axes& axes, ReduceOptions options) {
  return extremum("min", ReduceOp::min, x, axes, options);
}

Tensor var(const Tensor& x, const Axes& axes, ReduceOptions options, int correction) {
  const AxisMask mask = mask_of("var", x.shape(), axes);
  const Shape shape = reduced_shape(x.shape(), mask, options.keep_axes);
  const int64_t reduced = shape.count() == 0 ? 0 : x.count() / shape.count();
  if (correction < 0 || reduced <= correction) {
    fail(ErrorKind::usage,
         "var: expected more than {} elements per result, got {} from x {}. Lower correction.",
         correction, reduced, x.shape());
  }
  const Tensor deviation = sub(x, mean(x, axes, {.keep_axes = true}));
  return affine(sum(mul(deviation, deviation), axes, options),
                1.0 / static_cast<double>(reduced - correction), 0);
}

Tensor argmax(const Tensor& x, int axis) {
  const int along = x.shape().normalize_axis(axis, "argmax");
  check_computes("argmax", "x", x);
  const Tensor y = empty(x.shape().without(along), {.dtype = DType::i64, .device = x.device()});
  const AroundAxis a = around(x.shape(), along);
  if (y.count() == 0) return y;
  check_not_empty("argmax", "x", x);
  backend_of(x.device())
      .reduction()
      .argmax({.outer = a.outer, .classes = a.extent, .inner = a.inner}, x, y);
  return y;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return masked_sum(x, mask_to("sum_to", x.shape(), shape), shape);
}

Tensor sum_products_to(const Tensor& a, const Tensor& b, const Shape& shape) {
  if (!(a.shape() == b.shape()) || a.shape() == shape) return sum_to(mul(a, b), shape);
  check_alike("sum_products_to", "a", a, "b", b);
  check_computes("sum_products_to", "a", a);
  const AxisMask mask = mask_to("sum_products_to", a.shape(), shape);
  const Tensor y = a.count() == 0 ? zeros(shape, a.options()) : empty(shape, a.options());
  if (a.count() > 0) {
    const ReduceGeometry geometry = ReduceGeometry::of(a.shape(), mask);
    backend_of(a.device()).reduction().sum_products(geometry, a, b, y);
  }
  record("sum_products_to", {&a, &b}, y,
         [a = save_if(needs_grad(b), a), b = save_if(needs_grad(a), b)](Gradients& g) {
           if (g.needs(0)) g.accumulate_grad(0, mul(g.dy(), b(g)));
           if (g.needs(1)) g.accumulate_grad(1, mul(g.dy(), a(g)));
         });
  return y;
}

}  // namespace whisker
