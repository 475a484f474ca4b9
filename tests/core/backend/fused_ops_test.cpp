// Which sums of a convolution's result have a shift.
#include "core/backend/fused_ops.h"

#include "core/ops/ops.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

struct SumsRow {
  Shape x, w;
  DType dtype;
  int64_t rows, normalised_rows;  // of convolve() and of convolve_normalised()
};

// cuDNN's fused kernels leave no shift: they may compute f16 without a norm before, and whatever
// own kernels do not.
TEST(SumRows, HaveAShiftWhereOwnKernelsCompute) {
  const SumsRow rows[] = {{{1, 9, 9, 16}, {16, 3, 3, 1}, DType::f16, 3, 3},
                          {{1, 9, 9, 16}, {16, 3, 3, 1}, DType::f32, 3, 3},
                          {{1, 9, 9, 16}, {8, 1, 1, 16}, DType::f16, 2, 3},
                          {{1, 9, 9, 240}, {80, 1, 1, 240}, DType::bf16, 2, 3},
                          {{1, 9, 9, 16}, {24, 1, 1, 16}, DType::f16, 2, 2},
                          {{1, 9, 9, 248}, {80, 1, 1, 248}, DType::f16, 2, 2},
                          {{1, 9, 9, 16}, {16, 3, 3, 16}, DType::f16, 2, 2}};
  for (const SumsRow& r : rows) {
    const Conv2dOptions options{.groups = r.x[3] / r.w[3]};
    const Conv2dGeometry g = conv2d_geometry(r.x, r.w, false, options, r.dtype);
    EXPECT_EQ(sum_rows(g, false), r.rows) << r.x.str() << r.w.str() << name_of(r.dtype);
    EXPECT_EQ(sum_rows(g, true), r.normalised_rows) << r.x.str() << r.w.str() << name_of(r.dtype);
  }
}

}  // namespace
}  // namespace whisker
