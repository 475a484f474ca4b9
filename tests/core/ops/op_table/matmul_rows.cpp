// Matrix products with every kind of batch broadcasting, and the dense layer.
#include "tests/core/ops/op_table/rows.h"

namespace whisker::test {
namespace {

OpCase matmul_row(const Shape& a, const Shape& b, const Shape& out) {
  const int64_t m = a[-2], k = a[-1], n = b[-1];
  return {.name = fmt::format("matmul_{}_by_{}", tag(a), tag(b)),
          .inputs = {variable(a), variable(b)},
          .op = [](Inputs x) { return matmul(x[0], x[1]); },
          .expected =
              [=](Plain x) {
                Values y;
                for (int64_t at = 0; at < out.count(); ++at) {
                  const Index index = index_of(at, out);
                  Index left = index, right = index;
                  double sum = 0;
                  for (int64_t i = 0; i < k; ++i) {
                    left.back() = i;
                    right[right.size() - 2] = i;
                    sum += x[0][static_cast<size_t>(position_of(left, a))] *
                           x[1][static_cast<size_t>(position_of(right, b))];
                  }
                  y.push_back(sum);
                }
                return y;
              },
          .terms = m + n + k + out.count(),
          .scale = 1};
}

struct Fused {
  const char* name;
  ActivationSpec f;
  Twice twice;
};

std::vector<OpCase> linear_rows() {
  const Fused activations[] = {{"none", {}, Twice::works},
                               {"relu", {Activation::relu}, Twice::refused},
                               {"leaky_relu", {Activation::leaky_relu, 0.25f}, Twice::refused},
                               {"sigmoid", {Activation::sigmoid}, Twice::refused},
                               {"tanh", {Activation::tanh}, Twice::refused},
                               {"silu", {Activation::silu}, Twice::works}};
  struct Case {
    Shape x;
    size_t in, out;
    bool bias;
  };
  const Case cases[] = {{{3, 5}, 5, 4, true}, {{1, 1}, 1, 1, true}, {{2, 3, 17}, 17, 9, false}};
  std::vector<OpCase> rows;
  for (const Fused& fused : activations) {
    for (const Case& c : cases) {
      const auto out = static_cast<int64_t>(c.out);
      std::vector<Input> inputs{variable(c.x), variable({out, static_cast<int64_t>(c.in)})};
      if (c.bias) inputs.push_back(variable({out}));
      rows.push_back(
          {.name = fmt::format("linear_{}_{}_to_{}", fused.name, tag(c.x), c.out),
           .inputs = inputs,
           .op = [fused,
                  c](Inputs x) { return linear(x[0], x[1], c.bias ? x[2] : Tensor(), fused.f); },
           .expected =
               [fused, c](Plain x) {
                 Values y;
                 for (size_t r = 0; r < x[0].size() / c.in; ++r) {
                   for (size_t o = 0; o < c.out; ++o) {
                     double z = c.bias ? x[2][o] : 0;
                     for (size_t i = 0; i < c.in; ++i) {
                       z += x[0][r * c.in + i] * x[1][o * c.in + i];
                     }
                     y.push_back(plain_activation(fused.f, z));
                   }
                 }
                 return y;
               },
           .twice = fused.twice,
           .terms = static_cast<int64_t>(c.in) + out,
           .scale = 1});
    }
  }
  return rows;
}

}  // namespace

std::vector<OpCase> matmul_rows() {
  std::vector<OpCase> rows{matmul_row({3, 4}, {4, 5}, {3, 5}),
                           matmul_row({1, 1}, {1, 1}, {1, 1}),
                           matmul_row({1, 19}, {19, 1}, {1, 1}),
                           matmul_row({11, 33}, {33, 9}, {11, 9}),
                           matmul_row({2, 3, 4}, {4, 5}, {2, 3, 5}),
                           matmul_row({3, 4}, {2, 4, 5}, {2, 3, 5}),
                           matmul_row({2, 3, 4}, {2, 4, 5}, {2, 3, 5}),
                           matmul_row({2, 1, 3, 4}, {5, 4, 2}, {2, 5, 3, 2}),
                           matmul_row({1, 3, 4}, {2, 4, 5}, {2, 3, 5}),
                           matmul_row({3, 0}, {0, 2}, {3, 2}),
                           matmul_row({0, 3}, {3, 2}, {0, 2})};
  append(rows, linear_rows());
  return rows;
}

}  // namespace whisker::test
