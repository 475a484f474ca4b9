// softmax and log_softmax along one axis.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/losses.h"
#include "core/ops/checks.h"

namespace whisker {
namespace {

Tensor softmax(const char* name, bool log, const Tensor& x, int axis) {
  const int along = x.shape().normalize_axis(axis, name);
  check_computes(name, "x", x);
  const AroundAxis a = around(x.shape(), along);
  const SoftmaxGeometry geometry{
      .outer = a.outer, .classes = a.extent, .inner = a.inner, .log = log};
  const Tensor y = empty_like(x);
  if (y.count() > 0) backend_of(x.device()).losses().softmax(geometry, x, y);
  describe_op("axis {}", along);
  record(name, {&x}, y, [geometry, y = save_output(y)](Gradients& g) {
    g.no_double_backward();
    const Tensor dx = g.grad_buffer(0);
    if (dx.count() > 0) {
      backend_of(dx.device()).losses().softmax_backward(geometry, y(g), g.dy(), dx);
    }
  });
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return softmax("softmax", false, x, axis);
}
Tensor log_softmax(const Tensor& x, int axis) {
  return softmax("log_softmax", true, x, axis);
}

}  // namespace whisker
