// Batched matrix products. Transposition is a flag of the product, so backward is two more
// products.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/gemm.h"
#include "core/ops/checks.h"
#include "core/ops/product.h"

#include <algorithm>
#include <array>

namespace whisker {
namespace {

Shape leading(const Shape& shape) {
  return Shape(shape.extents().first(static_cast<size_t>(shape.rank() - 2)));
}

Shape append(const Shape& shape, int64_t rows, int64_t columns) {
  std::array<int64_t, Shape::max_rank> extents{};
  std::copy(shape.begin(), shape.end(), extents.begin());
  const auto rank = static_cast<size_t>(shape.rank());
  extents[rank] = rows;
  extents[rank + 1] = columns;
  return Shape(std::span<const int64_t>(extents.data(), rank + 2));
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  check_alike("matmul", "a", a, "b", b);
  check_computes("matmul", "a", a);
  if (a.rank() < 2 || b.rank() < 2) {
    fail(ErrorKind::usage, "matmul: expected two axes or more, got a {} and b {}. Use reshape().",
         a.shape(), b.shape());
  }
  const int64_t m = a.extent(transpose_a ? -1 : -2);
  const int64_t k = a.extent(transpose_a ? -2 : -1);
  const int64_t n = b.extent(transpose_b ? -2 : -1);
  if (const int64_t b_k = b.extent(transpose_b ? -1 : -2); b_k != k) {
    fail(ErrorKind::usage, "matmul: a has {} columns, b has {} rows: a {}, b {}.", k, b_k,
         a.shape(), b.shape());
  }
  const Shape a_batch = leading(a.shape());
  const Shape b_batch = leading(b.shape());
  const Shape batch = broadcast_shapes(a_batch, b_batch, "matmul");
  // A batch of one is shared by a stride of 0; anything more crossed is spelled out first.
  if (a_batch.count() != 1 && !(a_batch == batch)) {
    return product(broadcast_to(a, append(batch, a.extent(-2), a.extent(-1))), b, transpose_a,
                   transpose_b);
  }
  if (b_batch.count() != 1 && !(b_batch == batch)) {
    return product(a, broadcast_to(b, append(batch, b.extent(-2), b.extent(-1))), transpose_a,
                   transpose_b);
  }
  const Tensor y = empty(append(batch, m, n), a.options());
  if (y.count() > 0 && k == 0) {
    y.fill_(0);
  } else if (y.count() > 0) {
    backend_of(a.device())
        .gemm()
        .matmul({.batch = batch.count(),
                 .m = m,
                 .n = n,
                 .k = k,
                 .transpose_a = transpose_a,
                 .transpose_b = transpose_b,
                 .a_batch_stride = a_batch.count() == 1 ? 0 : m * k,
                 .b_batch_stride = b_batch.count() == 1 ? 0 : k * n},
                a, b, y);
  }
  if (transpose_a || transpose_b) {
    describe_op("transpose{}{}", transpose_a ? " 0" : "", transpose_b ? " 1" : "");
  }
  record("matmul", {&a, &b}, y,
         [transpose_a, transpose_b, a_shape = a.shape(), b_shape = b.shape(),
          a = save_if(needs_grad(b), a), b = save_if(needs_grad(a), b)](Gradients& g) {
           if (g.needs(0)) {  // dy op(b)^T, stored as a is
             g.accumulate_grad(0, sum_to(transpose_a ? product(b(g), g.dy(), transpose_b, true)
                                                     : product(g.dy(), b(g), false, !transpose_b),
                                         a_shape));
           }
           if (g.needs(1)) {  // op(a)^T dy, stored as b is
             g.accumulate_grad(1, sum_to(transpose_b ? product(g.dy(), a(g), true, transpose_a)
                                                     : product(a(g), g.dy(), !transpose_a, false),
                                         b_shape));
           }
         });
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (b.rank() == 2 && a.rank() > 2) {  // one tall product instead of a batch of small ones
    const int64_t rows = a.extent(-1) == 0 ? 0 : a.count() / a.extent(-1);
    if (rows > 0) {
      const Tensor flat = product(reshape(a, {rows, a.extent(-1)}), b, false, false);
      return reshape(flat, a.shape().with(-1, b.extent(1)));
    }
  }
  return product(a, b, false, false);
}

}  // namespace whisker
