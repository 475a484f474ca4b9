// Operators that read by index: gather, embedding, one_hot. Indices are i64 and get no gradient.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/shape_index.h"
#include "core/ops/checks.h"

namespace whisker {

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  const int along = x.shape().normalize_axis(axis, "gather");
  if (index.rank() != x.rank() || !(index.shape().with(along, 0) == x.shape().with(along, 0))) {
    fail(ErrorKind::usage, "gather: expected an index of x's shape off axis {}: x {}, index {}.",
         along, x.shape(), index.shape());
  }
  check_index("gather", index, x, x.extent(along));
  if (x.requires_grad()) check_computes("gather", "x", x);
  const AroundAxis a = around(x.shape(), along);
  const GatherGeometry geometry{
      .outer = a.outer, .extent = a.extent, .inner = a.inner, .picks = index.extent(along)};
  const Tensor y = empty(index.shape(), x.options());
  if (y.count() > 0) backend_of(x.device()).shape_index().gather(geometry, x, index, y);
  describe_op("axis {}", along);
  record("gather", {&x}, y, [geometry, shape = x.shape(), index = save(index)](Gradients& g) {
    g.no_double_backward();
    if (index(g).count() == 0) {
      g.accumulate_grad(0, zeros(shape, g.dy().options()));
    } else {
      backend_of(g.dy().device())
          .shape_index()
          .gather_backward(geometry, index(g), g.dy(), g.grad_buffer(0));
    }
  });
  return y;
}

Tensor embedding(const Tensor& table, const Tensor& index) {
  check_rank("embedding", "table", table, 2);
  check_computes("embedding", "table", table);
  check_index("embedding", index, table, table.extent(0));
  std::vector<int64_t> extents(index.shape().begin(), index.shape().end());
  extents.push_back(table.extent(1));
  const Tensor y = empty(Shape(std::span<const int64_t>(extents)), table.options());
  if (y.count() > 0) backend_of(table.device()).shape_index().embedding(table, index, y);
  record("embedding", {&table}, y, [shape = table.shape(), index = save(index)](Gradients& g) {
    g.no_double_backward();
    if (g.dy().count() == 0) {
      g.accumulate_grad(0, zeros(shape, g.dy().options()));
    } else {
      backend_of(g.dy().device())
          .shape_index()
          .embedding_backward(index(g), g.dy(), g.grad_buffer(0));
    }
  });
  return y;
}

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  if (classes < 1 || classes > max_attribute) {
    fail(ErrorKind::usage, "one_hot: expected classes in [1, {}], got {} for index {}.",
         max_attribute, classes, index.shape());
  }
  check_index("one_hot", index, index, classes);
  std::vector<int64_t> extents(index.shape().begin(), index.shape().end());
  extents.push_back(classes);
  const Tensor y =
      empty(Shape(std::span<const int64_t>(extents)), {.dtype = dtype, .device = index.device()});
  if (y.count() > 0) backend_of(index.device()).shape_index().one_hot(index, y);
  return y;
}

}  // namespace whisker
