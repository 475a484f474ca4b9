// All rows, and their plain index arithmetic.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace whisker::test {

std::string tag(const Shape& shape) {
  return shape.rank() == 0 ? "scalar" : fmt::format("{}", fmt::join(shape.extents(), "x"));
}

Index index_of(int64_t position, const Shape& shape) {
  Index index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = position % shape[axis];
    position /= shape[axis];
  }
  return index;
}

int64_t position_of(const Index& index, const Shape& shape) {
  int64_t position = 0;
  const size_t dropped = index.size() - static_cast<size_t>(shape.rank());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t at = index[dropped + static_cast<size_t>(axis)];
    position = position * shape[axis] + (shape[axis] == 1 ? 0 : at);
  }
  return position;
}

Values spread(const Values& x, const Shape& from, const Shape& to) {
  Values result;
  for (int64_t i = 0; i < to.count(); ++i) {
    result.push_back(x[static_cast<size_t>(position_of(index_of(i, to), from))]);
  }
  return result;
}

double plain_activation(const ActivationSpec& f, double z) {
  switch (f.kind) {
    case Activation::none:
      return z;
    case Activation::relu:
      return z > 0 ? z : 0;
    case Activation::leaky_relu:
      return z > 0 ? z : double{f.slope} * z;
    case Activation::relu6:
      return std::clamp(z, 0.0, 6.0);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::tanh:
      return std::tanh(z);
    case Activation::silu:
      return z / (1 + std::exp(-z));
    case Activation::hard_swish:
      return z * std::clamp(z + 3, 0.0, 6.0) / 6;
    default:
      throw std::logic_error("plain_activation: no formula");
  }
}

std::vector<OpCase> all_rows() {
  std::vector<OpCase> rows;
  for (auto* family :
       {arithmetic_rows, activation_rows, reduction_rows, shape_rows, matmul_rows, conv2d_rows,
        pool2d_rows, norm_rows, loss_rows, recurrent_rows, attention_rows}) {
    append(rows, family());
  }
  return rows;
}

void append(std::vector<OpCase>& rows, std::vector<OpCase> more) {
  for (OpCase& row : more) rows.push_back(std::move(row));
}

}  // namespace whisker::test
