// Dropout of elements and of examples: the mask is a function of (key, element index), so backward
// draws it again.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/ops/checks.h"

namespace whisker {

Tensor dropout(const Tensor& x, double rate, const RandomKey& key) {
  if (!(rate >= 0 && rate < 1)) {
    fail(ErrorKind::usage, "dropout: expected a rate in [0, 1), got {} for x {}.", rate, x.shape());
  }
  if (rate == 0) return x;
  check_computes("dropout", "x", x);
  const Tensor y = empty_like(x);
  if (y.count() > 0) backend_of(x.device()).elementwise().dropout(rate, key, x, y);
  describe_op("rate {}", rate);
  record("dropout", {&x}, y,
         [rate, key](Gradients& g) { g.accumulate_grad(0, dropout(g.dy(), rate, key)); });
  return y;
}

Tensor drop_path(const Tensor& x, double rate, const RandomKey& key) {
  if (!(rate >= 0 && rate < 1) || x.shape().rank() == 0) {
    fail(ErrorKind::usage, "drop_path: expected a rate in [0, 1) and x (N, ...), got {} and x {}.",
         rate, x.shape());
  }
  if (rate == 0) return x;
  check_computes("drop_path", "x", x);
  Shape examples = x.shape();
  for (int axis = 1; axis < examples.rank(); ++axis) examples = examples.with(axis, 1);
  return x * dropout(ones(examples, x.options()), rate, key);
}

}  // namespace whisker
