// exercise.md says what to fill in: the four rules of pass_on(), at the end.
//
// A tape of numbers: each operation is a row with its operands, its value and its gradient.
#include "course.h"

#include <vector>

enum class Operation { input, add, mul, tanh, square };

template <class T>
struct Row {
  Operation operation;
  int a, b;  // the rows of the operands; -1: none
  T value;
  T gradient = 0;  // dL/dvalue, once backward came here
};

template <class T>
struct Tape {
  std::vector<Row<T>> rows;

  // Each writes a row and returns its number.
  int input(T value) { return write(Operation::input, -1, -1, value); }
  int add(int a, int b) { return write(Operation::add, a, b, rows[a].value + rows[b].value); }
  int mul(int a, int b) { return write(Operation::mul, a, b, rows[a].value * rows[b].value); }
  int tanh(int a) { return write(Operation::tanh, a, -1, std::tanh(rows[a].value)); }
  int tanh(T) = delete;  // of a number: std::tanh
  int square(int a) { return write(Operation::square, a, -1, rows[a].value * rows[a].value); }

  // From the loss back to the first row: what comes later in the tape is done before.
  void backward(int loss) {
    rows[loss].gradient = 1;
    for (int row = loss; row >= 0; --row) pass_on(rows[row]);
  }

 private:
  int write(Operation operation, int a, int b, T value) {
    rows.push_back({operation, a, b, value});
    return static_cast<int>(rows.size()) - 1;
  }

  // Adds to the gradients of the operands.
  void pass_on(const Row<T>& y) {
    const T dy = y.gradient;
    switch (y.operation) {
      case Operation::input:
        break;
      case Operation::add:
        // Fill in: rows[y.a].gradient += ..., and the same for y.b.
        break;
      case Operation::mul:
        // Fill in.
        break;
      case Operation::tanh:
        // Fill in: y.value is the tanh.
        break;
      case Operation::square:
        // Fill in.
        break;
    }
  }
};
