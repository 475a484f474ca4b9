// Second layers (3x3, 32 channels), of which one own kernel computes both gradients: what the tests
// of all convolutions do not ask of them.
#include "convolution_case.h"
#include "core/backend/backend.h"
#include "core/backend/convolution.h"
#include "core/backend/geometry.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"
#include "whole_numbers.h"

#include <vector>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

const Pool2dOptions halves{.kernel = 2};

class CudaSecondLayer : public GpuTest {
 protected:
  static void allow_tf32() {
    CudaOptions options = exact_options();
    options.tf32 = true;
    set_cuda_options(gpu, options);
  }
};

TEST_F(CudaSecondLayer, AgreesWhateverIsWanted) {
  allow_tf32();
  for (const int64_t filters : {32, 64}) {
    for (const bool pooled : {false, true}) {
      for (const Activation kind : {Activation::none, Activation::relu}) {
        ConvolutionCase c{{2, 11, 37, 32}, {filters, 3, 3, 32}, {.activation = {kind}}};
        if (pooled) c.options.max_pool = halves;
        expect_whole_numbers_agree(c);
        expect_whole_numbers_agree(c, {.name = "no bias", .bias = false});
        expect_whole_numbers_agree(c, {.name = "frozen bias", .of_b = false});
        expect_whole_numbers_agree(c, {.name = "frozen filters", .of_w = false});
        expect_whole_numbers_agree(c, {.name = "frozen image", .of_x = false});
      }
    }
  }
}

TEST_F(CudaSecondLayer, AgreesWithAnyPadding) {
  allow_tf32();
  const ActivationSpec leaky_relu{.kind = Activation::leaky_relu, .slope = 0.25f};  // of few bits
  for (const Pair padding : {Pair(0), Pair(1), Pair(2, 0), Pair(0, 1), Pair(1, 3), Pair(4, 2)}) {
    for (const int64_t filters : {32, 64}) {
      ConvolutionCase c{
          {3, 12, 21, 32}, {filters, 3, 3, 32}, {.padding = padding, .activation = leaky_relu}};
      expect_whole_numbers_agree(c);
      c.options.max_pool = halves;
      expect_whole_numbers_agree(c);
    }
  }
}

TEST_F(CudaSecondLayer, AcceptsUnalignedViews) {
  const Shape x{2, 5, 7, 32}, w{32, 3, 3, 32};
  const auto behind_one = [](const Tensor& flat, const Shape& shape) {
    return reshape(slice(flat, 0, 1, 1 + shape.count()), shape);
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_agreement({.name = fmt::format("views {}", dtype),
                      .shapes = {{1 + x.count()}, {1 + w.count()}, {33}},
                      .function =
                          [&](Operands flat) {
                            return conv2d(behind_one(flat[0], x), behind_one(flat[1], w),
                                          behind_one(flat[2], {32}));
                          },
                      .tolerance = tolerance(dtype, longest_sum({x, w, {}})),
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
    EXPECT_THAT(std::vector(values.begin(), values.begin() + skipped), Each(5));
    EXPECT_EQ(values.back(), 5);
    results.emplace_back(values.begin() + skipped, values.end() - 1);
  }
  return results;
}

TEST_F(CudaSecondLayer, WritesGradientsOffTheGrid) {
  allow_tf32();
  for (const DType dtype : dtypes) {
    EXPECT_EQ(gradients_behind(1, dtype), gradients_behind(0, dtype)) << name_of(dtype);
  }
}

TEST_F(CudaSecondLayer, BothGradientsAreTimedAsOne) {
  const auto untimed = whole_number_results(small, {}, DType::bf16, gpu);
  CudaOptions options = exact_options();
  options.search_seconds = time_for_any_search;
  set_cuda_options(gpu, options);
  for (const char* run : {"first", "timed", "settled"}) {
    EXPECT_EQ(whole_number_results(small, {}, DType::bf16, gpu), untimed) << run;
  }
  EXPECT_THAT(backend_of(gpu).export_algorithms(),
              AnyOf(HasSubstr(R"( both":"few_channels")"), HasSubstr(R"( both":"unfused")")));
}

// The kernel leaves sums of as many blocks as there are multiprocessors; its parts need less.
TEST_F(CudaSecondLayer, RunsUnfusedWhereMemoryIsShort) {
  Backend& backend = backend_of(gpu);
  const int64_t before = backend.memory_stats().allocated;
  backend.reset_peak();
  const auto expected = whole_number_results(small, {}, DType::bf16, gpu);
  const int64_t needed = backend.memory_stats().peak - before;
  forget_choices(exact_options());
  backend.empty_cache();
  backend.set_memory_options({.limit_bytes = before + needed * 3 / 4});
  EXPECT_NO_THROW(EXPECT_EQ(whole_number_results(small, {}, DType::bf16, gpu), expected))
      << needed << " bytes with the kernel";
  backend.set_memory_options({});
}

}  // namespace
}  // namespace whisker::test
