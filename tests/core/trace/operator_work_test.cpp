// Operations and bytes against counts by hand. All is f64: 8 bytes an element.
#include "core/trace/operator_work.h"

#include "core/autograd/recompute.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/tape_support.h"

#include <functional>

#include <gtest/gtest.h>

namespace whisker {
namespace {

// Of the operators of a step with this loss, in order.
std::vector<OperatorWork> work_of(const std::function<Tensor()>& loss) {
  StepRecorder recorder;
  backward(loss());
  const Recording recording = recorder.recording();
  std::vector<OperatorWork> work;
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    if (recording.entries[i].kind == TapeKind::op) work.push_back(operator_work(recording, i));
  }
  return work;
}

Tensor random_leaf(const Shape& shape) {
  return rand_normal(shape, 0, 1, 1, 1, exact).set_requires_grad();
}

void expect_work(const PassWork& work, double operations, double elements) {
  EXPECT_EQ(work.operations, operations) << work.what;
  EXPECT_EQ(work.bytes, 8 * elements) << work.what;
}

TEST(OperatorWork, OfAMatrixProduct) {
  const Tensor a = random_leaf({4, 5}), b = random_leaf({5, 6});
  const auto work = work_of([&] { return sum(matmul(a, b)); });
  expect_work(work[0].forward, 2 * 4 * 5 * 6, 20 + 30 + 24);
  expect_work(work[0].backward, 2 * 2 * 4 * 5 * 6, 24 + 20 + 30 + 20 + 30);
  EXPECT_DOUBLE_EQ(work[0].forward.intensity(), 240.0 / (8 * 74));
  expect_work(work[1].forward, 24, 24 + 1);
  // Of one product alone where the other operand wants nothing; that keeps less, too.
  const auto half = work_of([&] { return sum(matmul(a, b.detach())); });
  expect_work(half[0].backward, 2 * 4 * 5 * 6, 24 + 30 + 20);
}

TEST(OperatorWork, AFusedOperatorCountsAllThatItDoes) {
  const Tensor x = random_leaf({2, 5}), w = random_leaf({3, 5}), b = random_leaf({3});
  const auto dense = work_of([&] { return sum(linear(x, w, b, {.kind = Activation::relu})); });
  expect_work(dense[0].forward, 2 * 6 * 5 + 6 + 6, 10 + 15 + 3 + 6);
  const Tensor image = random_leaf({1, 6, 6, 2}), filters = random_leaf({3, 3, 3, 2});
  const auto conv = work_of([&] { return sum(conv2d(image, filters, {})); });
  expect_work(conv[0].forward, 2 * (4 * 4 * 3) * 18, 72 + 54 + 48);
  expect_work(conv[0].backward, 2 * 2 * (4 * 4 * 3) * 18, 48 + 2 * (72 + 54));
  const auto pooled = work_of([&] {
    return sum(conv2d(image, filters, {},
                      {.padding_mode = PaddingMode::same, .max_pool = Pool2dOptions{.kernel = 2}}));
  });
  EXPECT_EQ(pooled[0].forward.what, "conv2d_max_pool2d");
  EXPECT_EQ(pooled[0].forward.operations, 2 * (6 * 6 * 3) * 18 + 6 * 6 * 3);
}

TEST(OperatorWork, OfElementwiseOperatorsViewsAndWhatHandsGradientsOn) {
  const Tensor x = random_leaf({3, 4}), row = random_leaf({4});
  const auto work = work_of([&] { return sum((relu(x) + row).reshape({12})); });
  expect_work(work[0].forward, 12, 24);
  expect_work(work[0].backward, 12, 36);  // the gradient that arrives, the result, x's
  expect_work(work[1].forward, 12, 12 + 4 + 12);
  expect_work(work[1].backward, 12, 12 + 4);  // x's is the one that arrives
  expect_work(work[2].forward, 0, 0);
  expect_work(work[2].backward, 0, 0);
}

TEST(OperatorWork, OfNormsSoftmaxAndAttention) {
  const Tensor x = random_leaf({6, 4}), gamma = random_leaf({4}), beta = random_leaf({4});
  const auto norm = work_of([&] { return sum(layer_norm(x, gamma, beta, 1e-5)); });
  EXPECT_EQ(norm[0].forward.operations, 8 * 24);
  const auto probabilities = work_of([&] { return sum(softmax(x)); });
  EXPECT_EQ(probabilities[0].forward.operations, 5 * 24);
  const TensorOptions single{.device = cpu_device};
  const Tensor qkv = rand_normal({2, 7, 3 * 8}, 0, 1, 1, 1, single).set_requires_grad();
  const auto fused = work_of([&] { return sum(attention(qkv, {}, {.heads = 2})); });
  const double products = 2 * 2 * (2 * 7 * 7 * 8), scores = 2 * 2 * 7 * 7;
  EXPECT_EQ(fused[0].forward.operations, products + 5 * scores);
  EXPECT_EQ(fused[0].backward.operations, 2.5 * products + 5 * scores);
}

// Backward of a recomputed block runs it forwards and backwards.
TEST(OperatorWork, OfARecomputedBlock) {
  const Tensor x = random_leaf({4, 5}), w = random_leaf({5, 5});
  const auto block = [&](const Tensor& at) { return tanh(matmul(at, w)); };
  const auto plain = work_of([&] { return sum(block(x)); });
  const auto again = work_of([&] {
    const auto forward = [&](const Tensor& at, bool) { return block(at); };
    return sum(recompute("block", forward, x, std::vector<Tensor>{w}));
  });
  ASSERT_EQ(again.size(), 4u);  // matmul, tanh, recompute, sum
  EXPECT_EQ(again[2].forward.bytes, 0);
  EXPECT_EQ(again[2].backward.operations,
            plain[0].forward.operations + plain[0].backward.operations +
                plain[1].forward.operations + plain[1].backward.operations);
}

}  // namespace
}  // namespace whisker
