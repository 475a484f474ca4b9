// Lesson 5: both gradients of a convolution are convolutions.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cstdio>
#include <utility>
#include <vector>

using namespace whisker;

namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

// Zeros between the rows and columns of dy: each element as far apart as its window in x.
Tensor spread(const Tensor& dy, int64_t stride) {
  Tensor result = dy;
  for (const int axis : {1, 2}) {
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < result.extent(axis); ++i) {
      const Tensor one = slice(result, axis, i, i + 1);
      if (i > 0) {
        for (int64_t k = 1; k < stride; ++k) parts.push_back(zeros(one.shape(), exact));
      }
      parts.push_back(one);
    }
    result = concat(parts, axis);
  }
  return result;
}

// Rows and columns of the filters from the last to the first.
Tensor turned(const Tensor& w) {
  Tensor result = w;
  for (const int axis : {1, 2}) {
    std::vector<Tensor> parts;
    for (int64_t i = w.extent(axis); i-- > 0;) parts.push_back(slice(result, axis, i, i + 1));
    result = concat(parts, axis);
  }
  return result;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(a - b)).item();
}

}  // namespace

int main() {
  for (const int64_t stride : {1, 2}) {
    const Tensor x = rand_normal({2, 7, 7, 3}, 0, 1, 1, 1, exact).set_requires_grad();  // (N,H,W,C)
    const Tensor w = rand_normal({4, 3, 3, 3}, 0, 1, 1, 2, exact).set_requires_grad();
    const Tensor y = conv2d(x, w, {}, {.stride = stride});
    const Tensor dy = rand_normal(y.shape(), 0, 1, 1, 3, exact);
    backward(y, {.gradient = dy});
    const NoGrad off;

    // dx: dy with zeros between and around it, convolved with the turned filters, whose input and
    // output channels change places.
    const std::vector<std::pair<int64_t, int64_t>> around = {{0, 0}, {2, 2}, {2, 2}, {0, 0}};
    const Tensor dx =
        conv2d(pad(spread(dy, stride), around), transpose(turned(w), {3, 1, 2, 0}), {});

    // dw: x, whose channels become the batch, convolved with dy as filters that are as far apart as
    // the windows. The batch is what is summed over.
    const Tensor dw = transpose(
        conv2d(transpose(x, {3, 1, 2, 0}), transpose(dy, {3, 1, 2, 0}), {}, {.dilation = stride}),
        {3, 1, 2, 0});
    std::printf("stride %lld: y %s\n", static_cast<long long>(stride), y.shape().str().c_str());
    std::printf("  dx %s  differs by less than 1e-12: %s\n", dx.shape().str().c_str(),
                largest_difference(dx, x.grad()) < 1e-12 ? "yes" : "no");
    std::printf("  dw %s  differs by less than 1e-12: %s\n", dw.shape().str().c_str(),
                largest_difference(dw, w.grad()) < 1e-12 ? "yes" : "no");
  }
}
