// A reshape that keeps the batch axis.
#include "layers/flatten.h"

namespace whisker {

Tensor Flatten::forward(const Tensor& x, const Pass&) {
  return x.reshape(output_shape(x.shape()));
}

Shape Flatten::output_shape(const Shape& x) const {
  if (x.rank() < 1) fail(ErrorKind::usage, "flatten: expected (N, ...), got {}", x);
  int64_t features = 1;
  for (int axis = 1; axis < x.rank(); ++axis) features *= x[axis];
  return {x[0], features};
}

}  // namespace whisker
