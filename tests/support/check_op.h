// One definition of an operator, checked on each device in every dtype it computes in.
//  - forward on the reference in f64 against plain double loops written in the row;
//  - forward everywhere against the reference in f64 on the same rounded inputs;
//  - gradients on the reference in f64 against central finite differences, everywhere else against
//    those;
//  - gradients of gradients against finite differences of gradients, or the refusal by name;
//  - inputs unchanged, fresh memory poisoned with NaN, and NaN never close to anything.
#pragma once

#include "core/ops/ops.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace whisker::test {

enum class InputKind : uint8_t { variable, constant, index, mask };

/// One operand. Values of a real input are distinct, evenly spread over (low, high) and shuffled,
/// so that no finite difference crosses a tie. An index is an i64 in [0, high).
struct Input {
  Shape shape;
  InputKind kind = InputKind::variable;
  double low = -1;
  double high = 1;
};

inline Input variable(const Shape& shape, double low = -1, double high = 1) {
  return {shape, InputKind::variable, low, high};
}
/// Real values that get no gradient.
inline Input constant(const Shape& shape, double low = -1, double high = 1) {
  return {shape, InputKind::constant, low, high};
}
inline Input index(const Shape& shape, int64_t extent) {
  return {shape, InputKind::index, 0, static_cast<double>(extent)};
}
inline Input mask(const Shape& shape) {
  return {shape, InputKind::mask, 0, 1};
}

using Values = std::vector<double>;

enum class Twice : uint8_t {
  works,
  refused,     ///< throws usage, naming the operator
  not_at_all,  ///< no gradient even once
};

struct OpCase {
  std::string name;  ///< letters, digits and underscores: the test's name
  std::vector<Input> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> op;
  /// The result from the inputs' elements, in plain loops.
  std::function<Values(const std::vector<Values>&)> expected;
  Twice twice = Twice::works;
  int64_t terms = 1;    ///< of the longest sum, forward or backward
  double scale = 0.05;  ///< magnitude of intermediate values where the results are smaller
};

/// The row's inputs, in f64 on the reference.
std::vector<Tensor> inputs_of(const OpCase& row);
/// What the reference computes in f64, against the row's loops and finite differences.
void check_definition(const OpCase& row);
/// What `device` computes in each of its dtypes, against the reference in f64.
void check_on(const OpCase& row, Device device);

inline void PrintTo(const OpCase& row, std::ostream* out) {
  *out << row.name;
}

}  // namespace whisker::test
