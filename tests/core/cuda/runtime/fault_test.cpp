// Bad labels and indices on a GPU: skipped by the kernel, thrown once, by the next wait.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/error_of.h"

#include <cmath>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

class CudaFault : public GpuTest {
 protected:
  static Tensor i64(std::initializer_list<double> values) {
    return from_vector(values, {static_cast<int64_t>(values.size())},
                       {.dtype = DType::i64, .device = gpu});
  }
  void expect_fault(ErrorKind kind, const char* message) {
    EXPECT_EQ(message_of(kind, [] { backend_of(gpu).synchronize(); }), message);
    EXPECT_NO_THROW(backend_of(gpu).synchronize()) << "thrown twice";
  }
};

TEST_F(CudaFault, ABadLabelIsSkippedAndReported) {
  const Tensor logits = zeros({3, 2}, {.device = gpu}).set_requires_grad();
  const Tensor loss = cross_entropy(logits, i64({1, 2, 0}));
  backward(loss);
  expect_fault(ErrorKind::data, "cross_entropy: label 2 of row 1 is outside [0, 2).");
  EXPECT_NEAR(loss.item(), 2 * std::log(2.0) / 3, 1e-6);
  const std::vector<double> gradient = logits.grad().to_vector();
  const std::vector<double> want = {1, -1, 0, 0, -1, 1};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(gradient[i], want[i] / 6, 1e-7) << i;
}

TEST_F(CudaFault, BadIndicesYieldZerosAndAreReported) {
  const Tensor x = from_vector({1, 2, 3, 4, 5, 6}, {3, 2}, {.device = gpu});
  const Tensor rows = embedding(x, i64({2, 3, 0}));
  expect_fault(ErrorKind::usage, "embedding: index 3 is outside [0, 3).");
  EXPECT_THAT(rows.to_vector(), ElementsAre(5, 6, 0, 0, 1, 2));
  const Tensor picks = gather(x, 0, i64({-1, 2}).reshape({1, 2}));
  expect_fault(ErrorKind::usage, "gather: index -1 is outside [0, 3).");
  EXPECT_THAT(picks.to_vector(), ElementsAre(0, 6));
  const Tensor classes = one_hot(i64({0, 7}), 2);
  expect_fault(ErrorKind::usage, "one_hot: index 7 is outside [0, 2).");
  EXPECT_THAT(classes.to_vector(), ElementsAre(1, 0, 0, 0));
}

TEST_F(CudaFault, BadPicksGetNoGradient) {
  const Tensor table = zeros({3, 2}, {.device = gpu}).set_requires_grad();
  const Tensor rows = embedding(table, i64({2, 3, 2}));
  backward(sum(rows));
  expect_fault(ErrorKind::usage, "embedding: index 3 is outside [0, 3).");
  EXPECT_THAT(table.grad().to_vector(), ElementsAre(0, 0, 0, 0, 2, 2));
}

}  // namespace
}  // namespace whisker::test
