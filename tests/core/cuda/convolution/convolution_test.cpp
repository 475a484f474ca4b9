// Convolutions by every algorithm of the GPU against the reference; LargeShapes
// (tests/core/ops/op_table/large_test.cpp) runs the same cases by what is chosen first. And what
// may not change results: views off the 16-byte grid, timed choices, imported ones, repetition.
#include "core/backend/convolution.h"

#include "convolution_case.h"
#include "core/autograd/autograd.h"
#include "whole_numbers.h"

#include <algorithm>
#include <map>
#include <regex>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

void expect_agree(const char* what, const std::vector<ConvolutionCase>& cases,
                  double least_tolerance = 0) {
  for (const ConvolutionCase& c : cases) {
    // Rounding that moves a value across relu's corner changes whole gradients.
    if (least_tolerance > 0 && c.options.activation.kind == Activation::relu) continue;
    for (const DType dtype : dtypes) expect_convolution_agrees(what, c, dtype, least_tolerance);
  }
}

class CudaConvolution : public GpuTest {};

TEST_F(CudaConvolution, AgreesWithTheReferenceWhenTimed) {
  CudaOptions options = exact_options();
  options.search_seconds = time_for_any_search;
  set_cuda_options(gpu, options);
  expect_agree("first run", convolutions());
  expect_agree("timed choice", convolutions());  // what comes back is timed
  EXPECT_NE(backend_of(gpu).export_algorithms(), "");
}

// That no library's kernel runs shows under racecheck, which they break.
TEST_F(CudaConvolution, AgreesWithoutLibraries) {
  CudaOptions options = exact_options();
  options.without_libraries = true;
  set_cuda_options(gpu, options);
  expect_agree("without libraries", convolutions());
}

// Own tensor-core kernels, which compute f32 as tf32.
TEST_F(CudaConvolution, AgreesInTf32WithoutLibraries) {
  CudaOptions options;
  options.without_libraries = true;
  options.tf32 = true;
  set_cuda_options(gpu, options);
  std::vector<ConvolutionCase> few_channels = convolutions();
  std::erase_if(few_channels, [](const ConvolutionCase& c) { return c.x[3] != 1 && c.x[3] != 3; });
  expect_agree("without libraries, tf32", few_channels, 8 * 0x1p-11);
}

// Weight gradients of first layers alone, without bias and activation: 16-bit tiles of dy are copied
// past the registers. Several tiles in each direction, filters that fill none.
TEST_F(CudaConvolution, OfFirstLayersWithoutBiasAgrees) {
  CudaOptions options = exact_options();
  options.tf32 = true;
  set_cuda_options(gpu, options);
  const ConvolutionCase cases[] = {
      {{2, 66, 64, 3}, {32, 3, 3, 3}, {.padding = 1}},
      {{3, 33, 40, 3}, {16, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 41, 296, 3}, {24, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {{2, 32, 32, 3}, {32, 3, 3, 3}, {.stride = 2, .padding_mode = PaddingMode::same}},
      {{2, 13, 160, 3}, {64, 3, 3, 3}, {.padding = 2}},
      {{2, 40, 40, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}},
      {{2, 20, 32, 1}, {40, 3, 3, 1}, {.padding = 1}},
      {{2, 13, 300, 3}, {32, 3, 3, 3}, {.stride = 2, .padding = 1}},
      // More tiles, one for each image, than there are blocks (264).
      {{300, 15, 16, 3}, {16, 3, 3, 3}, {.stride = 2, .padding = 1}},
  };
  for (const ConvolutionCase& c : cases) {
    expect_whole_numbers_agree(c, {.name = "weights", .bias = false, .of_x = false});
  }
}

TEST_F(CudaConvolution, AgreesRoughlyInTf32) {
  CudaOptions options = exact_options();
  options.tf32 = true;
  set_cuda_options(gpu, options);
  expect_agree("tf32", convolutions(), 8 * 0x1p-11);
}

TEST_F(CudaConvolution, LeavesNoWorkspaceBehind) {
  const MemoryStats before = backend_of(gpu).memory_stats();
  for (const ConvolutionCase& c : convolutions()) {
    for (const DType dtype : dtypes) {
      for (const bool of_data : {false, true}) convolution_results(c, dtype, gpu, of_data);
    }
  }
  backend_of(gpu).synchronize();
  EXPECT_EQ(backend_of(gpu).memory_stats().allocated, before.allocated);
}

/// convolution_results() on the GPU by choices that have been timed, where that is allowed: what
/// comes back is.
Results timed_results(const ConvolutionCase& c, DType dtype) {
  convolution_results(c, dtype, gpu);
  return convolution_results(c, dtype, gpu);
}

TEST_F(CudaConvolution, RepeatsBitForBitWhenDeterministic) {
  CudaOptions options = exact_options();
  options.deterministic = true;
  set_cuda_options(gpu, options);
  for (const ConvolutionCase& c : convolutions()) {
    for (const DType dtype : dtypes) {
      EXPECT_EQ(timed_results(c, dtype), timed_results(c, dtype)) << c.x.str() << c.w.str();
    }
  }
}

TEST_F(CudaConvolution, GradientsOfACaptureAreThoseOfAnEagerPass) {
  CudaOptions options = exact_options();
  options.deterministic = true;
  set_cuda_options(gpu, options);
  for (const ConvolutionCase& c : convolutions()) {
    for (const DType dtype : dtypes) {
      SCOPED_TRACE(fmt::format("{} x {} w {}", dtype, c.x, c.w));
      std::vector<Tensor> leaves;
      for (const Shape& shape : {c.x, c.w, Shape{c.w[0]}}) {
        leaves.push_back(rand_normal(shape, 0, 1, 3, leaves.size()).to(dtype).to(gpu));
        leaves.back().set_requires_grad();
      }
      const auto forward = [&] { return conv2d(leaves[0], leaves[1], leaves[2], c.options); };
      const Tensor dy = rand_normal(forward().shape(), 0, 1, 4, 0).to(dtype).to(gpu);
      const auto gradients = [&] { return grad(forward(), leaves, {.gradient = dy}); };
      gradients();  // chooses algorithms
      const std::vector<Tensor> eager = gradients();
      const CapturedResults captured(eager, gradients);
      for (int round = 0; round < 3; ++round) {
        for (const Tensor& gradient : captured.results) gradient.fill_(round);
        captured.graph->replay();
        for (size_t i = 0; i < eager.size(); ++i) {
          ASSERT_EQ(captured.results[i].to_vector(), eager[i].to_vector()) << "gradient " << i;
        }
      }
    }
  }
}

TEST_F(CudaConvolution, FollowsImportedChoices) {
  const ConvolutionCase c = convolutions()[6];
  CudaOptions timed = exact_options();
  timed.search_seconds = time_for_any_search;
  set_cuda_options(gpu, timed);
  const auto results = timed_results(c, DType::bf16);
  const std::string table = backend_of(gpu).export_algorithms();
  ASSERT_NE(table, "");

  forget_choices(exact_options());
  EXPECT_EQ(backend_of(gpu).export_algorithms(), "");
  backend_of(gpu).import_algorithms(table);
  EXPECT_EQ(timed_results(c, DType::bf16), results);
  EXPECT_EQ(backend_of(gpu).export_algorithms(), table);
}

TEST_F(CudaConvolution, RunsTooShortToSearchKeepTheirFirstChoice) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = rand_uniform({8, 28, 28, 64}, -1, 1, 7, 1).to(dtype).to(gpu);
    const Tensor w = rand_uniform({96, 3, 3, 64}, -1, 1, 7, 2).to(dtype).to(gpu);
    const auto result = [&] { return conv2d(x, w, {}, {.padding = 1}).to_vector(); };
    forget_choices(exact_options());
    const auto untimed = result();
    CudaOptions options = exact_options();
    options.search_seconds = time_for_any_search;
    options.search_uses = 1;
    std::string first_table;
    for (int run = 0; run < 4; ++run) {
      forget_choices(options);
      for (int round = 0; round < 3; ++round) EXPECT_EQ(result(), untimed);
      const std::string table = backend_of(gpu).export_algorithms();
      EXPECT_NE(table, "");
      if (run == 0) first_table = table;
      EXPECT_EQ(table, first_table);
    }
  }
}

TEST_F(CudaConvolution, IgnoresChoicesThatMeanNothing) {
  const ConvolutionCase c = convolutions()[6];
  CudaOptions timed = exact_options();
  timed.search_seconds = time_for_any_search;
  set_cuda_options(gpu, timed);
  const auto results = timed_results(c, DType::f32);
  std::string table = backend_of(gpu).export_algorithms();
  for (size_t at = 0; (at = table.find("engine ", at)) != std::string::npos; at += 7) {
    table.insert(at + 7, "9999");
  }
  forget_choices(exact_options());
  backend_of(gpu).import_algorithms(table);
  const auto again = timed_results(c, DType::f32);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(close(again[i], results[i], tolerance(DType::f32, longest_sum(c)), 1));
  }
}

// Two engines of cuDNN 9.14 ignore the padding after; only their results show it.
TEST_F(CudaConvolution, KeepsPaddingThatDiffersBySide) {
  CudaOptions timed = exact_options();
  timed.search_seconds = time_for_any_search;
  set_cuda_options(gpu, timed);
  for (int round = 0; round < 2; ++round) expect_agree("timed", uneven_convolutions());
  const std::string table = backend_of(gpu).export_algorithms();
  for (const char* dtype : {"f32", "bf16", "f16"}) {  // by an engine, not as a last resort
    const std::string request = fmt::format("backward_weights {} x\\(2,12,12,24\\)", dtype);
    EXPECT_TRUE(std::regex_search(table, std::regex(request + "[^:]*\":\"engine"))) << table;
  }
  for (const bool deterministic : {false, true}) {
    CudaOptions options = exact_options();
    options.deterministic = deterministic;
    forget_choices(options);
    expect_agree(deterministic ? "deterministic" : "first choice", uneven_convolutions());
    for (const char* engine : {"engine 1", "engine 20"}) {
      forget_choices(options);
      backend_of(gpu).import_algorithms(
          std::regex_replace(table, std::regex("engine [0-9]+( knobs( [0-9]+:[0-9]+)+)?"), engine));
      expect_agree(engine, uneven_convolutions());
    }
  }
}

/// conv2d with a residual, off the tape: one operator.
void expect_residuals_agree(const char* what) {
  const NoGrad off_tape;
  static std::map<std::string, std::vector<double>> reference;  // computed once
  const ConvolutionCase cases[] = {
      {{2, 14, 14, 64}, {256, 1, 1, 64}},
      {{3, 13, 15, 64}, {64, 3, 3, 64}, {.padding = 1}},
      {{2, 15, 14, 32}, {48, 3, 3, 32}, {.stride = 2, .padding = 1}},
      {{2, 12, 12, 32}, {64, 3, 3, 16}, {.padding = 1, .groups = 2}},
      {{2, 12, 12, 32}, {32, 3, 3, 1}, {.padding = 1, .groups = 32}},
      {{2, 9, 9, 16}, {5, 3, 3, 16}, {.padding = 1}},
      {{2, 9, 8, 16}, {24, 3, 3, 16}, {.stride = 2, .padding_mode = PaddingMode::same}},
  };
  for (const ConvolutionCase& c : cases) {
    const Conv2dGeometry g = conv2d_geometry(c.x, c.w, true, c.options);
    for (const Activation f : {Activation::none, Activation::relu, Activation::silu}) {
      for (const DType dtype : dtypes) {
        for (const bool bias : {true, false}) {
          const std::string name =
              fmt::format("{} {} {} x {} w {}", name_of(f), dtype, bias, c.x, c.w);
          SCOPED_TRACE(fmt::format("{} {}", what, name));
          Conv2dOptions options = c.options;
          options.activation.kind = f;
          const auto result = [&](Device device) {
            const auto operand = [&](const Shape& of, uint64_t stream) {
              const Tensor host = normal_numbers(of, 7, stream).to(dtype);
              return host.to(device == reference_device ? DType::f32 : dtype).to(device);
            };
            return conv2d(operand(c.x, 0), operand(c.w, 1), bias ? operand({c.w[0]}, 2) : Tensor(),
                          options, operand({g.n, g.h_out, g.w_out, g.c_out}, 3))
                .to_vector();
          };
          std::vector<double>& expected = reference[name];
          if (expected.empty()) expected = result(reference_device);
          expect_results_agree({expected}, {result(gpu)}, tolerance(dtype, longest_sum(c)));
        }
      }
    }
  }
}

TEST_F(CudaConvolution, AddsResiduals) {
  expect_residuals_agree("first choice");
  CudaOptions options = exact_options();
  options.search_seconds = time_for_any_search;
  forget_choices(options);
  expect_residuals_agree("first run");
  expect_residuals_agree("timed choice");
  const std::string table = backend_of(gpu).export_algorithms();
  EXPECT_TRUE(std::regex_search(table, std::regex("bias relu [0-9.]+ residual"))) << table;
  forget_choices(exact_options());
  backend_of(gpu).import_algorithms(
      std::regex_replace(table, std::regex("engine [0-9]+( knobs( [0-9]+:[0-9]+)+)?"), "unfused"));
  expect_residuals_agree("unfused");
}

TEST_F(CudaConvolution, AcceptsUnalignedViews) {
  for (const DType dtype : dtypes) {
    // Images of 75 elements: the second one starts on no 16-byte boundary.
    expect_agreement({.name = fmt::format("view {}", dtype),
                      .shapes = {{3, 5, 5, 3}, {2, 3, 3, 3, 3}, {7, 3}},
                      .function =
                          [](Operands x) {
                            return conv2d(slice(x[0], 0, 1, 3),
                                          reshape(slice(x[1], 0, 1, 2), {3, 3, 3, 3}),
                                          reshape(slice(x[2], 0, 3, 4), {3}));
                          },
                      .tolerance = tolerance(dtype, 100),
                      .dtype = dtype,
                      .device = gpu});
    expect_agreement(
        {.name = fmt::format("product of views {}", dtype),
         .shapes = {{3, 5, 7}, {3, 7, 9}},
         .function = [](Operands x) { return matmul(slice(x[0], 0, 1, 3), slice(x[1], 0, 1, 3)); },
         .tolerance = tolerance(dtype, 100),
         .dtype = dtype,
         .device = gpu});
  }
}

const ConvolutionCase small{{2, 9, 20, 32}, {64, 3, 3, 32}, {.activation = relu_spec}};

/// dx, dw and db of `small`, each written behind `skipped` elements and before one more, which stay
/// what they were.
std::vector<std::vector<double>> gradients_behind(int64_t skipped, DType dtype) {
  const auto operand = [&](const Shape& shape, uint64_t stream) {
    return whole_numbers(shape, stream).to(dtype).to(gpu);
  };
  const Conv2dGeometry g = conv2d_geometry(small.x, small.w, true, small.options, dtype);
  const Shape y{g.n, g.h_out, g.w_out, g.c_out}, b{g.c_out};
  std::vector<Tensor> memory, gradients;
  for (const Shape& shape : {small.x, small.w, b}) {
    memory.push_back(full({skipped + shape.count() + 1}, 5, {.dtype = dtype, .device = gpu}));
    gradients.push_back(reshape(slice(memory.back(), 0, skipped, skipped + shape.count()), shape));
  }
  backend_of(gpu).convolution().conv2d_backward(
      g, {.x = operand(small.x, 0), .w = operand(small.w, 1), .y = operand(y, 2)}, operand(y, 3),
      {.dx = gradients[0], .dw = gradients[1], .db = gradients[2]});
  std::vector<std::vector<double>> results;
  for (const Tensor& t : memory) {
    const std::vector<double> values = t.to_vector();
    EXPECT_THAT(std::vector(values.begin(), values.begin() + skipped), testing::Each(5));
    EXPECT_EQ(values.back(), 5);
    results.emplace_back(values.begin() + skipped, values.end() - 1);
  }
  return results;
}

TEST_F(CudaConvolution, WritesGradientsOffTheGrid) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_EQ(gradients_behind(1, dtype), gradients_behind(0, dtype)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace whisker::test
