// Pooling on the GPU against the reference, with and without whole packs of channels.
#include "core/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

using CudaPooling = GpuTest;

TEST_F(CudaPooling, AgreesWithTheReference) {
  const std::vector<Pool2dOptions> cases = {
      {.kernel = 2},
      {.kernel = 3, .stride = Pair(2), .padding = 1},
      {.kernel = 3, .stride = Pair(2), .ceil = true},
      {.kernel = 2, .stride = Pair(3), .padding = 1},
      {.kernel = {3, 2}, .stride = Pair(1), .padding = 1, .count_padding = true},
      {.kernel = 17, .stride = Pair(3), .padding = 8}};
  for (const Pool2dOptions& options : cases) {
    for (const int64_t channels : {3, 16, 72}) {
      for (const DType dtype : dtypes) {
        const auto name =
            fmt::format("pool {} kernel {} channels {}", dtype, options.kernel.h, channels);
        expect_agreement({.name = "max " + name,
                          .shapes = {{3, 33, 30, channels}},
                          .function = [=](Operands x) { return max_pool2d(x[0], options); },
                          .tolerance = tolerance(dtype, 81),
                          .dtype = dtype,
                          .device = gpu});
        expect_agreement({.name = "avg " + name,
                          .shapes = {{3, 33, 30, channels}},
                          .function = [=](Operands x) { return avg_pool2d(x[0], options); },
                          .tolerance = tolerance(dtype, 600),
                          .dtype = dtype,
                          .device = gpu});
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
