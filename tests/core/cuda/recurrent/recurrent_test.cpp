// Recurrent layers on the GPU against the reference, wider than the operator table's: every kind,
// depth, direction, projection, length and mask.
#include "core/autograd/autograd.h"
#include "recurrent_case.h"

namespace whisker::test {
namespace {

class CudaRecurrent : public GpuTest {
 protected:
  static void expect(const RecurrentCase& s, std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) expect_recurrent(s, dtype, dtype);
  }
};

TEST_F(CudaRecurrent, OfEveryKind) {
  const std::vector<int64_t> lengths = {17, 3, 9, 1, 17, 12, 5, 2};
  for (RecurrentCase s : std::vector<RecurrentCase>{
           {},
           {.layers = 2, .directions = 2, .initial = true},
           {.bias = false},
           {.layers = 3, .directions = 2, .dropout = 0.5},
           {.layers = 2, .directions = 2, .initial = true, .lengths = lengths},
           {.layers = 2, .lengths = lengths, .dropout = 0.25}}) {
    for (const RecurrentKind kind : recurrent_kinds) {
      s.kind = kind;
      expect(s, {DType::f32});
    }
  }
}

TEST_F(CudaRecurrent, InSixteenBits) {
  for (const RecurrentKind kind : smooth_recurrent_kinds) {
    expect({.kind = kind, .steps = 6}, {DType::bf16, DType::f16});
  }
}

TEST_F(CudaRecurrent, WithAProjection) {
  expect({.projection = 16, .layers = 2, .initial = true}, {DType::f32});
}

TEST_F(CudaRecurrent, ACapturedStepIsTheEagerOne) {
  const RecurrentCase s{.layers = 2};
  const std::vector<Tensor> leaves = random_leaves(s);
  const auto step = [&] { return grad(mean(scaled_result(s, leaves)), leaves); };
  const std::vector<Tensor> eager = step();
  const CapturedResults replayed(eager, step);
  for (int round = 0; round < 3; ++round) replayed.graph->replay();
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(close(replayed.results[i].to_vector(), eager[i].to_vector(), 1e-6, 0)) << i;
  }
}

}  // namespace
}  // namespace whisker::test
