// Equal logits and scores of any size: softmax, cross entropy and attention depend on differences
// alone. log(sum(exp(x))) = largest + log(sum(exp(x - largest))) is never added up: the log is lost
// beside a huge largest.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/support/devices.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr double sizes[] = {10, 1e6, 1e8, 1e10, 1e14, 1e16, 1e30, -1e9, -1e16, -1e30, -3e38};

/// fn(options) for every device and dtype that has numbers of this size.
void for_each_with(double size, const std::function<void(TensorOptions)>& fn) {
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      if (dtype == DType::f16 && std::abs(size) > 6e4) continue;
      SCOPED_TRACE(fmt::format("{} on {} {}", size, device, dtype));
      fn({.dtype = dtype, .device = device});
    }
  }
}

void expect_values(const Tensor& x, const std::vector<double>& wanted, const char* what) {
  const double tolerance = x.dtype() == DType::bf16 || x.dtype() == DType::f16 ? 1e-2 : 2e-6;
  const std::vector<double> values = x.to_vector();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], tolerance) << what;
}

TEST(HugeValues, EqualLogitsAreEquallyProbable) {
  const double third = 1.0 / 3, log_3 = std::log(3);
  for (const double size : sizes) {
    for_each_with(size, [&](TensorOptions options) {
      const Tensor x = from_vector({size, size, size}, {1, 3}, options).set_requires_grad();
      const Tensor one = from_vector({1, 0, 0}, {1, 3}, options);
      expect_values(softmax(x), {third, third, third}, "softmax");
      expect_values(log_softmax(x), {-log_3, -log_3, -log_3}, "log_softmax");
      expect_values(grad(sum(softmax(x) * one), {{x}})[0], {2.0 / 9, -1.0 / 9, -1.0 / 9},
                    "gradient of softmax");
      expect_values(grad(sum(log_softmax(x) * one), {{x}})[0], {1 - third, -third, -third},
                    "gradient of log_softmax");
      const Tensor label = from_vector({0}, {1}, {.dtype = DType::i64, .device = options.device});
      for (const double smoothing : {0.0, 0.1}) {
        const Tensor loss = cross_entropy(x, label, {.label_smoothing = smoothing});
        expect_values(loss, {log_3}, "cross entropy");
        const double spread = smoothing / 3;
        expect_values(grad(loss, {{x}})[0],
                      {third - (1 - smoothing) - spread, third - spread, third - spread},
                      "gradient of cross entropy");
      }
    });
  }
}

// A row whose keys are all masked by one finite number attends to all of them alike.
TEST(HugeValues, EqualScoresAttendToAllAlike) {
  for (const double size : {0.0, 1e4, 1e6, 1e9, 1e30}) {
    for_each_with(size, [&](TensorOptions options) {
      constexpr int64_t tokens = 3, width = 8;
      std::vector<double> values(tokens * 3 * width, 0.0);
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t i = 0; i < width; ++i) {
          values[static_cast<size_t>(t * 3 * width + 2 * width + i)] = static_cast<double>(t + 1);
        }
      }
      const Tensor qkv = from_vector(values, {1, tokens, 3 * width}, options).set_requires_grad();
      const Tensor bias = full({1, 1, tokens, tokens}, -size, options);
      const Tensor y = attention(qkv, bias);
      expect_values(y, std::vector<double>(tokens * width, 2), "attention");
      const std::vector<double> gradient = grad(sum(y), {{qkv}})[0].to_vector();
      for (size_t i = 0; i < gradient.size(); ++i) {
        const bool of_v = i % (3 * width) >= 2 * width;
        EXPECT_NEAR(gradient[i], of_v ? 1 : 0, 2e-2) << "element " << i;
      }
    });
  }
}

}  // namespace
}  // namespace whisker::test
