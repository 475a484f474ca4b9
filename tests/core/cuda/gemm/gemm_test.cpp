// Gemms and dense layers on the GPU against the reference: odd and even extents, batches,
// the library's first choice and timed ones, exported and imported.
#include "core/io/json.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

class CudaGemm : public GpuTest {
 protected:
  static void expect_gemms_agree() {
    for (const DType dtype : dtypes) {
      const auto expect = [&](std::string name, std::vector<Shape> shapes,
                              TensorFunction function) {
        expect_agreement({.name = fmt::format("{} {}", name, dtype),
                          .shapes = std::move(shapes),
                          .function = std::move(function),
                          .tolerance = tolerance(dtype, 1000),
                          .dtype = dtype,
                          .device = gpu});
      };
      const auto gemm = [](Operands x) { return matmul(x[0], x[1]); };
      expect("matmul", {{128, 64}, {64, 96}}, gemm);
      expect("odd matmul", {{129, 65}, {65, 77}}, gemm);
      expect("row", {{1, 640}, {640, 3}}, gemm);
      expect("batched", {{6, 1, 33, 17}, {5, 17, 9}}, gemm);
      expect("many matrices", {{70000, 2, 3}, {3, 2}}, [](Operands x) {
        return matmul(x[0], broadcast_to(reshape(x[1], {1, 3, 2}), {70000, 3, 2}));
      });
      for (const Activation kind : {Activation::none, Activation::relu, Activation::tanh}) {
        for (const Shape& w : {Shape{33, 100}, Shape{51, 130}, Shape{512, 256}, Shape{2, 512}}) {
          expect(fmt::format("linear {} {}", static_cast<int>(kind), w), {{67, w[1]}, w, {w[0]}},
                 [=](Operands x) { return linear(x[0], x[1], x[2], {.kind = kind}); });
          expect(fmt::format("linear without bias {} {}", static_cast<int>(kind), w),
                 {{67, w[1]}, w},
                 [=](Operands x) { return linear(x[0], x[1], {}, {.kind = kind}); });
        }
      }
    }
  }
};

TEST_F(CudaGemm, AgreeWithTheReference) {
  expect_gemms_agree();
}

TEST_F(CudaGemm, AgreeWithoutLibraries) {
  CudaOptions options = exact_options();
  options.without_libraries = true;
  set_cuda_options(gpu, options);
  expect_gemms_agree();
  EXPECT_EQ(backend_of(gpu).export_algorithms(), "");
}

TEST_F(CudaGemm, AgreeWithTheReferenceWhenTimed) {
  CudaOptions options = exact_options();
  options.search_seconds = time_for_any_search;
  set_cuda_options(gpu, options);
  expect_gemms_agree();  // first choices; what comes back is timed
  expect_gemms_agree();
  const std::string table = backend_of(gpu).export_algorithms();
  ASSERT_NE(table, "");
  const JsonValue json = JsonValue::parse(table, {});
  EXPECT_FALSE(json.at("products").members().empty());
  forget_choices(exact_options());
  backend_of(gpu).import_algorithms(table);
  expect_gemms_agree();
  EXPECT_EQ(backend_of(gpu).export_algorithms(), table);
}

}  // namespace
}  // namespace whisker::test
