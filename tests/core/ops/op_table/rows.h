// Definitions of the operators, rows of plain loops, one function per family, and the index
// arithmetic that the loops share. The name of a row begins with the name that the operator has in
// core/trace/operator_table.cpp.
#pragma once

#include "tests/core/cases/pool_cases.h"
#include "tests/support/check_op.h"

#include <string>
#include <vector>

namespace whisker::test {

std::vector<OpCase> arithmetic_rows();
std::vector<OpCase> activation_rows();
std::vector<OpCase> reduction_rows();
std::vector<OpCase> shape_rows();
std::vector<OpCase> matmul_rows();
std::vector<OpCase> conv2d_rows();
std::vector<OpCase> pool2d_rows();
std::vector<OpCase> norm_rows();
std::vector<OpCase> loss_rows();
std::vector<OpCase> recurrent_rows();
std::vector<OpCase> attention_rows();
std::vector<OpCase> all_rows();

using Inputs = const std::vector<Tensor>&;
using Plain = const std::vector<Values>&;
using Index = std::vector<int64_t>;

/// "2x3x1"; "scalar" for rank 0.
std::string tag(const Shape& shape);
/// Multi-index of element `position` in row-major order.
Index index_of(int64_t position, const Shape& shape);
/// Position of a multi-index; axes of extent 1 repeat and missing leading axes are dropped (NumPy's
/// broadcasting).
int64_t position_of(const Index& index, const Shape& shape);
/// Values of `x` broadcast to `shape`.
Values spread(const Values& x, const Shape& from, const Shape& to);
/// f(z), for the kinds that operators fuse in these rows.
double plain_activation(const ActivationSpec& f, double z);
Values plain_pool2d(const SmallPool& s, bool average, const Values& x);
void append(std::vector<OpCase>& rows, std::vector<OpCase> more);

}  // namespace whisker::test
