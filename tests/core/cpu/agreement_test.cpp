// Values that the rows of the operator table do not have: far apart, far from zero, of a type that
// the CPU does not compute in.
#include "tests/support/agreement.h"

#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

TEST(CpuAgreement, Activations) {
  for (const Activation kind :
       {Activation::relu, Activation::leaky_relu, Activation::sigmoid, Activation::tanh,
        Activation::gelu, Activation::silu, Activation::softplus, Activation::relu6,
        Activation::hard_sigmoid, Activation::hard_swish}) {
    for (const double spread : {0.3, 4.0, 40.0}) {
      expect_agreement(
          {fmt::format("activation {} x{}", static_cast<int>(kind), spread),
           {{41, 1031}},
           [=](Operands x) { return activation(affine(x[0], spread, 0), {.kind = kind}); }});
    }
  }
}

// Deviations are small beside the mean: sums of squares would cancel.
TEST(CpuAgreement, NormsFarFromZero) {
  for (const int64_t channels : {8, 16, 35}) {
    expect_agreement({fmt::format("batch_norm {}", channels),
                      {{5, 13, 14, channels}, {channels}, {channels}},
                      [](Operands x) {
                        return batch_norm(affine(x[0], 2, 30), x[1], x[2], {}, {.training = true});
                      },
                      5e-5});
  }
  expect_agreement({"layer_norm",
                    {{130, 257}, {257}, {257}},
                    [](Operands x) { return layer_norm(affine(x[0], 3, 20), x[1], x[2]); },
                    5e-5});
}

TEST(Cpu, RefusesF64ByName) {
  const Tensor x = ones({3}, {.dtype = DType::f64});
  EXPECT_THAT(message_of(ErrorKind::usage, [&] { exp(x); }), ::testing::HasSubstr("got f64"));
}

}  // namespace
}  // namespace whisker::test
