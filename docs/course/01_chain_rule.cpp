// Lesson 1: one expression on three ways: by hand, on a tape of numbers, in Whisker's engine.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "solutions/scalar_engine.cpp"

#include <cmath>
#include <cstdio>

using whisker::Tensor;

namespace {

constexpr double x = 0.5, w = 2, b = -0.6, t = 0.8;

const char* name_of(Operation operation) {
  constexpr const char* names[] = {"input", "add", "mul", "tanh", "square"};
  return names[static_cast<int>(operation)];
}

// L = (tanh(w x + b) - t)^2, one slope after the other.
void by_hand() {
  const double y = std::tanh(w * x + b);
  const double dy = 2 * (y - t);       // of the square
  const double du = dy * (1 - y * y);  // of tanh
  std::printf("by hand     dx %.6f  dw %.6f  db %.6f\n", du * w, du * x, du);
}

void on_a_tape() {
  Tape<double> tape;
  const int row_x = tape.input(x), row_w = tape.input(w), row_b = tape.input(b);
  const int sum = tape.add(tape.mul(row_w, row_x), row_b);
  const int loss = tape.square(tape.add(tape.tanh(sum), tape.input(-t)));
  tape.backward(loss);
  std::printf("tape        dx %.6f  dw %.6f  db %.6f\n", tape.rows[row_x].gradient,
              tape.rows[row_w].gradient, tape.rows[row_b].gradient);

  std::printf("\nrow  operation  of     value  gradient\n");
  for (size_t row = 0; row < tape.rows.size(); ++row) {
    const Row<double>& one = tape.rows[row];
    char of[16] = "";
    if (one.b >= 0)
      std::snprintf(of, sizeof of, "%d %d", one.a, one.b);
    else if (one.a >= 0)
      std::snprintf(of, sizeof of, "%d", one.a);
    std::printf("%3zu  %-9s  %-3s  %8.4f  %8.4f\n", row, name_of(one.operation), of, one.value,
                one.gradient);
  }
}

void in_whisker() {
  constexpr whisker::TensorOptions exact{.dtype = whisker::DType::f64,
                                         .device = whisker::reference_device};
  const Tensor tx = from_vector({x}, {}, exact).set_requires_grad();
  const Tensor tw = from_vector({w}, {}, exact).set_requires_grad();
  const Tensor tb = from_vector({b}, {}, exact).set_requires_grad();
  backward(pow(tanh(tw * tx + tb) - t, 2));
  std::printf("Whisker     dx %.6f  dw %.6f  db %.6f\n", tx.grad().item(), tw.grad().item(),
              tb.grad().item());
}

// (L(w + h) - L(w - h)) / 2h: needs no rule, but two evaluations for each number.
void by_differences() {
  const auto loss = [](double of_w) { return std::pow(std::tanh(of_w * x + b) - t, 2); };
  std::printf("difference  dw %.6f\n", (loss(w + 1e-5) - loss(w - 1e-5)) / 2e-5);
}

}  // namespace

int main() {
  by_hand();
  in_whisker();
  by_differences();
  on_a_tape();
}
