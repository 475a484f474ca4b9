// Lesson 2: what Whisker's tape holds, and the order in which backward walks it.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cstdio>

using namespace whisker;

namespace {

// Prints each operator as it is recorded, and as backward comes to it.
struct Printer : TapeObserver {
  int recorded = 0;
  void on_record(const Node& node, Tensors, Tensors) override {
    std::printf("  %d  %s\n", ++recorded, node.name());
  }
  void on_backward_begin(const Node& node) override { std::printf("     %s\n", node.name()); }
};

}  // namespace

int main() {
  constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
  const Tensor x = from_vector({1, -2, 3}, {3}, exact);
  const Tensor w = from_vector({0.5, 0.25, 1}, {3}, exact).set_requires_grad();

  Printer printer;
  grad_mode.observer = &printer;
  std::printf("forward\n");
  const Tensor h = relu(w * x);
  const Tensor y = h * h + w;
  const Tensor loss = sum(y);
  std::printf("backward\n");
  backward(loss);
  grad_mode.observer = nullptr;

  std::printf("h      = %g %g %g\n", h.data<double>()[0], h.data<double>()[1], h.data<double>()[2]);
  const std::vector<double> dw = w.grad().to_vector();
  std::printf("dL/dw  = %g %g %g\n", dw[0], dw[1], dw[2]);

  {
    const NoGrad off;  // nothing is written down
    std::printf("without the tape: %s\n", (w * x).requires_grad() ? "recorded" : "not recorded");
  }
  try {
    backward(loss);  // what the operators kept is gone
  } catch (const Error& error) {
    std::printf("a second backward: %s\n", error.what());
  }
}
