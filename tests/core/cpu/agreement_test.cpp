// Shapes that reach the threaded, vectorised and remainder paths of the CPU kernels, which the
// small cases of check_op do not.
#include "tests/support/agreement.h"

#include "convolution_cases.h"
#include "core/autograd.h"
#include "core/parameters.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

TEST(CpuAgreement, Pointwise) {
  const Shape large = {3, 31, 29, 37};
  expect_agreement({"add", {large, large}, [](Operands x) { return x[0] + x[1]; }});
  expect_agreement({"mul row", {large, {37}}, [](Operands x) { return x[0] * x[1]; }});
  expect_agreement({"sub column", {{3, 31, 29, 1}, large}, [](Operands x) { return x[0] - x[1]; }});
  expect_agreement({"div both", {{5, 1, 7}, {3, 7}}, [](Operands x) {
                      return x[0] / affine(mul(x[1], x[1]), 1, 1);
                    }});
  expect_agreement({"scalar", {{}, {}}, [](Operands x) { return x[0] * x[1] + x[0]; }});
  expect_agreement({"exp", {large}, [](Operands x) { return exp(affine(x[0], 6, 0)); }});
  expect_agreement(
      {"log", {large}, [](Operands x) { return log(affine(mul(x[0], x[0]), 1, 0.1)); }});
  expect_agreement({"max", {large, large}, [](Operands x) { return maximum(x[0], x[1]); }});
  expect_agreement({"clamp", {large}, [](Operands x) { return clamp(x[0], -0.5, 0.7); }});
}

TEST(CpuAgreement, Activations) {
  for (const Activation kind :
       {Activation::relu, Activation::leaky_relu, Activation::sigmoid, Activation::tanh,
        Activation::gelu, Activation::silu, Activation::softplus}) {
    for (const double spread : {0.3, 4.0, 40.0}) {
      expect_agreement(
          {fmt::format("activation {} x{}", static_cast<int>(kind), spread),
           {{41, 1031}},
           [=](Operands x) { return activation(affine(x[0], spread, 0), {.kind = kind}); }});
    }
  }
}

TEST(CpuAgreement, Dropout) {
  expect_agreement(
      {"dropout",
       {{3, 40001}},
       [](Operands x) { return dropout(x[0], 0.3, {.seed = 5, .stream = 9, .step = 2}); },
       1e-6});
}

TEST(CpuAgreement, Reductions) {
  const Shape large = {5, 33, 17, 35};
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{3}, Axes{1, 2}, Axes{0, 1, 2}, Axes{0, 2},
                           Axes{1, 3}, Axes{0, 1, 3}, Axes{2, 3}}) {
    const std::string name = fmt::format("axes {}", fmt::join(axes, ","));
    expect_agreement({"sum " + name, {large}, [=](Operands x) { return sum(x[0], axes); }});
    expect_agreement({"mean " + name, {large}, [=](Operands x) { return mean(x[0], axes); }});
    expect_agreement({"max " + name, {large}, [=](Operands x) { return max(x[0], axes); }});
    expect_agreement({"min " + name, {large}, [=](Operands x) { return min(x[0], axes); }});
  }
  expect_agreement({"sum one", {{1}}, [](Operands x) { return sum(x[0]); }});
  expect_agreement({"long rows", {{3, 100003}}, [](Operands x) { return sum(x[0], {1}); }});
  expect_agreement({"long columns", {{50021, 3}}, [](Operands x) { return sum(x[0], {0}); }});
}

TEST(CpuAgreement, ShapeAndIndex) {
  expect_agreement({"transpose", {{7, 33, 5, 129}}, [](Operands x) {
                      return transpose(x[0], {2, 0, 3, 1});
                    }});
  expect_agreement({"concat", {{40, 3, 300}, {40, 5, 300}}, [](Operands x) {
                      return concat({x[0], x[1]}, 1);
                    }});
  expect_agreement(
      {"pad", {{9, 21, 33}}, [](Operands x) {
         return pad(x[0], std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {0, 3}, {4, 0}}, 1.5);
       }});
  expect_agreement({"slice", {{9, 210, 33}}, [](Operands x) { return slice(x[0], 1, 5, 200); }});
}

TEST(CpuAgreement, Products) {
  expect_agreement(
      {"matmul", {{129, 65}, {65, 77}}, [](Operands x) { return matmul(x[0], x[1]); }});
  expect_agreement(
      {"batched", {{6, 1, 33, 17}, {5, 17, 9}}, [](Operands x) { return matmul(x[0], x[1]); }});
  expect_agreement({"tiny", {{2, 3}, {3, 2}}, [](Operands x) { return matmul(x[0], x[1]); }});
  for (const Activation kind : {Activation::none, Activation::relu, Activation::tanh}) {
    expect_agreement({"linear", {{67, 130}, {51, 130}, {51}}, [=](Operands x) {
                        return linear(x[0], x[1], x[2], {.kind = kind});
                      }});
  }
}

TEST(CpuAgreement, Convolution) {
  for (const ConvolutionCase& c : convolution_cases()) {
    const auto name = fmt::format("conv2d {} {}", c.x, c.w);
    // Winograd's transforms cost up to three decimal digits: see Note [Winograd tolerance].
    expect_agreement({name,
                      {c.x, c.w, {c.w[0]}},
                      [=](Operands x) { return conv2d(x[0], x[1], x[2], c.options); },
                      1e-4});
    expect_agreement({name + " no bias",
                      {c.x, c.w},
                      [=](Operands x) { return conv2d(x[0], x[1], {}, c.options); },
                      1e-4});
  }
}

TEST(CpuAgreement, Pooling) {
  const std::vector<Pool2dOptions> cases = {
      {.kernel = 2},
      {.kernel = 3, .stride = Pair(2), .padding = 1},
      {.kernel = 3, .stride = Pair(2), .ceil = true},
      {.kernel = {3, 2}, .stride = Pair(1), .padding = 1, .count_padding = true},
      {.kernel = 17, .stride = Pair(3), .padding = 8}};
  for (const Pool2dOptions& options : cases) {
    for (const int64_t channels : {16, 35}) {
      const Shape shape = {4, 33, 30, channels};
      const auto name = fmt::format("kernel {} channels {}", options.kernel.h, channels);
      expect_agreement(
          {"max " + name, {shape}, [=](Operands x) { return max_pool2d(x[0], options); }});
      expect_agreement(
          {"avg " + name, {shape}, [=](Operands x) { return avg_pool2d(x[0], options); }});
    }
  }
  expect_agreement({"global", {{4, 9, 7, 37}}, [](Operands x) { return global_avg_pool2d(x[0]); }});
}

TEST(CpuAgreement, Normalisation) {
  for (const int64_t channels : {8, 16, 35}) {
    for (const bool residual : {false, true}) {
      for (const Activation kind : {Activation::none, Activation::relu}) {
        const Shape x_shape = {5, 13, 14, channels};
        std::vector<Shape> shapes = {x_shape, {channels}, {channels}};
        if (residual) shapes.push_back(x_shape);
        for (const bool training : {true, false}) {
          expect_agreement(
              {fmt::format("batch_norm {} {} {}", channels, residual, training), shapes,
               [=](Operands x) {
                 const TensorOptions options = x[0].options();
                 BatchNormState state{.running_mean = full({channels}, 0.1, options),
                                      .running_var = full({channels}, 2, options),
                                      .pending_mean = empty({channels}, options),
                                      .pending_var = empty({channels}, options)};
                 return batch_norm(affine(x[0], 2, 30), x[1], x[2], state,
                                   {.training = training, .activation = {.kind = kind}},
                                   residual ? x[3] : Tensor());
               },
               5e-5});
        }
      }
    }
  }
  expect_agreement({"layer_norm",
                    {{130, 257}, {257}, {257}},
                    [](Operands x) { return layer_norm(affine(x[0], 3, 20), x[1], x[2]); },
                    5e-5});
}

TEST(CpuAgreement, Losses) {
  for (const int axis : {0, 1, 2}) {
    expect_agreement({"softmax", {{9, 70, 11}}, [=](Operands x) { return softmax(x[0], axis); }});
    expect_agreement(
        {"log_softmax", {{9, 70, 11}}, [=](Operands x) { return log_softmax(x[0], axis); }});
  }
  expect_agreement({"cross_entropy", {{300, 200}}, [](Operands x) {
                      std::vector<double> labels;
                      for (int i = 0; i < 300; ++i) labels.push_back(i * 7 % 200);
                      const Tensor target = from_vector(
                          labels, {300}, {.dtype = DType::i64, .device = x[0].device()});
                      return cross_entropy(x[0], target, {.label_smoothing = 0.1});
                    }});
  expect_agreement({"soft", {{300, 20}}, [](Operands x) {
                      return cross_entropy(x[0], full({300, 20}, 0.05, x[0].options()));
                    }});
  expect_agreement({"binary", {{333, 41}}, [](Operands x) {
                      return binary_cross_entropy_with_logits(
                          affine(x[0], 5, 0), full(x[0].shape(), 0.3, x[0].options()));
                    }});
}

TEST(Cpu, RefusesF64ByName) {
  const Tensor x = ones({3}, {.dtype = DType::f64});
  try {
    exp(x);
    FAIL() << "f64 was computed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("got f64"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace whisker::test
