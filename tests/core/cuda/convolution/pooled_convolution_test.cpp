// Convolutions with max-pooling in the same operator, on the GPU against the reference: where own
// kernels fuse them and where they run unfused.
#include "convolution_case.h"
#include "whole_numbers.h"

#include <cmath>

namespace whisker::test {
namespace {

/// Pooled first layers, fused by own kernels, and others, which run unfused.
std::vector<ConvolutionCase> pooled_cases() {
  const Pool2dOptions halves{.kernel = 2};
  const Pool2dOptions overlapping{.kernel = 3, .stride = Pair(2), .padding = 1};
  return {
      {{2, 66, 66, 3}, {32, 3, 3, 3}, {.activation = relu_spec, .max_pool = halves}},
      {{2, 19, 37, 3}, {64, 3, 3, 3}, {.padding = 1, .activation = relu_spec, .max_pool = halves}},
      {{3, 21, 18, 1}, {32, 3, 3, 1}, {.max_pool = halves}},
      {{1, 9, 150, 3}, {32, 3, 3, 3}, {.activation = relu_spec, .max_pool = halves}},
      {{2, 15, 14, 32}, {64, 3, 3, 32}, {.activation = relu_spec, .max_pool = halves}},
      {{3, 18, 35, 32}, {32, 3, 3, 32}, {.padding = {1, 2}, .max_pool = halves}},
      {{1, 9, 70, 3}, {32, 3, 3, 3}, {.activation = {Activation::tanh}, .max_pool = halves}},
      {{1, 9, 70, 3}, {32, 3, 3, 3}, {.activation = {Activation::leaky_relu}, .max_pool = halves}},
      {{2, 20, 20, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3, .max_pool = overlapping}},
      {{2, 13, 12, 16},
       {24, 3, 3, 16},
       {.activation = {Activation::tanh}, .max_pool = overlapping}},
  };
}

void expect_pooled_convolutions_agree(const char* what) {
  const auto cases = pooled_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    const ConvolutionCase& c = cases[i];
    for (const DType dtype : dtypes) {
      // Elsewhere results are rounded before windows are compared: other elements win.
      const bool same_winners = dtype == DType::f32 || i < 4;
      if (same_winners) expect_convolution_agrees(what, c, dtype);
    }
  }
}

class CudaPooledConvolution : public GpuTest {};

TEST_F(CudaPooledConvolution, AgreesWithTheReference) {
  expect_pooled_convolutions_agree("first choice");
}

TEST_F(CudaPooledConvolution, AgreesWithoutLibraries) {
  CudaOptions options = exact_options();
  options.without_libraries = true;
  set_cuda_options(gpu, options);
  expect_pooled_convolutions_agree("without libraries");
}

TEST_F(CudaPooledConvolution, AgreesWhenTimedAndInTf32) {
  CudaOptions options;
  options.search_seconds = time_for_any_search;
  set_cuda_options(gpu, options);
  for (const ConvolutionCase& c : pooled_cases()) {
    // Of the sums before tanh narrows them; each has filter-many products of normal numbers.
    const double sums = std::sqrt(static_cast<double>(c.w.count() / c.w[0]));
    for (const DType dtype : dtypes) {
      const Tensor x = rand_normal(c.x, 0, 1, 3, 0).to(dtype);
      const Tensor w = rand_normal(c.w, 0, 1, 3, 1).to(dtype);
      const Tensor b = rand_normal({c.w[0]}, 0, 1, 3, 2).to(dtype);
      const auto on = [&](const Tensor& t, Device device) {
        return device == reference_device ? t.to(DType::f32).to(device) : t.to(device);
      };
      const auto pooled = [&](Device device) {
        return conv2d(on(x, device), on(w, device), on(b, device), c.options).to_vector();
      };
      const double relative = dtype == DType::f32 ? 8 * 0x1p-11 : tolerance(dtype, 1000);
      const auto expected = pooled(reference_device);
      for (const char* run : {"first", "timed", "settled"}) {
        EXPECT_TRUE(close(pooled(gpu), expected, relative, sums))
            << fmt::format("{} {} x {} w {}", run, dtype, c.x, c.w);
      }
    }
  }
}

// In tf32, too, which holds small whole numbers.
TEST_F(CudaPooledConvolution, GradientsGoToTheArgmax) {
  const Pool2dOptions halves{.kernel = 2};
  for (const bool tf32 : {false, true}) {
    CudaOptions options = exact_options();
    options.tf32 = tf32;
    set_cuda_options(gpu, options);
    for (const Activation kind : {Activation::relu, Activation::none, Activation::leaky_relu}) {
      const ActivationSpec f{.kind = kind, .slope = 0.25f};  // of few bits, too
      for (const ConvolutionCase& c : std::vector<ConvolutionCase>{
               {{2, 15, 14, 32}, {64, 3, 3, 32}, {.activation = f, .max_pool = halves}},
               {{3, 12, 37, 32},
                {32, 3, 3, 32},
                {.padding = 1, .activation = f, .max_pool = halves}},
               {{5, 12, 21, 8}, {128, 3, 3, 8}, {.activation = f, .max_pool = halves}},
               {{3, 9, 9, 8}, {20, 3, 3, 8}, {.activation = f, .max_pool = halves}},
               {{9, 66, 63, 8}, {32, 3, 3, 8}, {.activation = f, .max_pool = halves}}}) {
        expect_whole_numbers_agree(c);
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
