// Two batch norms as one operator against one after the other, on every device and in every type;
// where the device does not join them, both are the same.
#include "core/tape_listing.h"
#include "tests/core/joint_norm_case.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

constexpr Uniform uniform{.seed = 13};

// Odd rows, and enough for deviations that rounding does not swamp; channels for packs of 16 and 8
// bytes and for none; one block and many, below and beside each other.
const Shape shapes[] = {{7, 5},    {5, 17},         {9, 24},          {3, 3, 5, 36},
                        {7, 4100}, {2, 15, 17, 64}, {5, 29, 31, 128}, {67, 2048}};

/// In each channel now above, now below its mean, by so much that the sign of the sum follows.
Values two_sided(const Shape& shape) {
  Values values = uniform(shape, 3, 0, 0.125);
  const int64_t channels = shape[-1];
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    values[i] += 2 + ((at / channels + at % channels) % 2 == 0 ? 1 : -1);
  }
  return values;
}

class Pair final : public JointNormCase {
 public:
  Pair(Device device, DType dtype, const Shape& shape, const JointNormOptions& options)
      : JointNormCase(device, dtype, uniform, options) {
    const Shape channels{shape[-1]};
    add_norm(shape, uniform(shape, 0, 3, 1), uniform(channels, 1, 0.25, 0.125),
             uniform(channels, 2, 0, 0.25));
    add_norm(shape, two_sided(shape), uniform(channels, 4, 2, 0.25), uniform(channels, 5, 0, 0.25));
  }
  Tensor forward() override {
    const Tensor &x = x_of(0), &added = x_of(1);
    const BatchNormOperands own = operands_of(0), other = operands_of(1);
    if (options_.how == How::joint) return batch_norm_pair(x, own, added, other);
    const Tensor residual = batch_norm(added, other.gamma, other.beta, other.state, other.options);
    return batch_norm(x, own.gamma, own.beta, own.state, own.options, residual);
  }
};

Results run(Device device, DType dtype, const Shape& shape, const JointNormOptions& options) {
  return Pair(device, dtype, shape, options).run();
}

template <class Body>
void for_each_case(const Body& body) {
  for_each_dtype([&](Device device, DType dtype) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(shape.str());
      body(device, dtype, shape);
    }
  });
}

TEST(BatchNormPair, IsTheNormsApart) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    for_each_way([&](const JointNormOptions& joint, const JointNormOptions& apart) {
      expect_close(run(device, dtype, shape, joint), run(device, dtype, shape, apart), dtype,
                   shape);
    });
  });
}

TEST(BatchNormPair, TakesStatisticsFromSums) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    expect_close(run(device, dtype, shape, {.from_sums = true}), run(device, dtype, shape, {}),
                 dtype, shape, 1e-4);
  });
}

TEST(BatchNormPair, Repeats) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    const JointNormOptions options{.two_readers = true};
    const Results first = run(device, dtype, shape, options);
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(run(device, dtype, shape, options), first);
    }
  });
}

TEST(BatchNormPair, ComputesWhatIsWantedAlone) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    const Results all = run(device, dtype, shape, {});
    for (size_t i = 0; i < 6; ++i) {
      SCOPED_TRACE(i);
      const Results one = run(device, dtype, shape, {.wanted = i});
      expect_close({one[0], one[1]}, {all[0], all[1 + i]}, dtype, shape);
    }
  });
}

// As everywhere: see Note [relu's gradient and NaN].
TEST(BatchNormPair, StopsGradientsWhereReluIsZero) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    std::vector<Results> results;
    for (const double where_zero : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
      Pair pair(device, dtype, shape, {});
      const int64_t zeros = pair.backward_where_zero(pair.forward(), where_zero);
      EXPECT_NEAR(static_cast<double>(zeros) / static_cast<double>(shape.count()), 0.5, 0.1);
      results.push_back(pair.gradients());
    }
    expect_close(results[1], results[0], dtype, shape);
  });
}

std::vector<std::string> names_of(Device device, const JointNormOptions& options) {
  return operators_of(Pair(device, DType::f32, {7, 8}, options));
}

TEST(BatchNormPair, IsOneOperatorWhereTheDeviceJoinsThem) {
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.str());
    const bool joins = joins_batch_norms(zeros({2, 3}, {.device = device}));
    EXPECT_EQ(joins, device.kind != DeviceKind::cpu);
    const auto apart = ElementsAre("batch_norm", "batch_norm");
    if (joins) {
      EXPECT_THAT(names_of(device, {}), ElementsAre("batch_norm_pair"));
    } else {
      EXPECT_THAT(names_of(device, {}), apart);
    }
    EXPECT_THAT(names_of(device, {.training = false}), apart);
    Pair joint(device, DType::f32, {7, 8}, {.training = false});
    Pair one_by_one(device, DType::f32, {7, 8}, {.how = How::apart, .training = false});
    EXPECT_EQ(joint.forward().to_vector(), one_by_one.forward().to_vector());
  }
}

// Neither the second norm's result nor the sum is among what is kept.
TEST(BatchNormPair, KeepsBothTensorsAlone) {
  TapeListing listing;
  Pair pair(reference_device, DType::f32, {7, 8}, {});
  const Tensor y = pair.forward();
  const std::vector<TapeEntry> entries = listing.entries();
  ASSERT_EQ(entries.back().name, "batch_norm_pair");
  EXPECT_EQ(entries.back().inputs.size(), 6u);
  int whole = 0;
  for (const TapeSaved& saved : entries.back().saved) whole += saved.shape == Shape{7, 8};
  EXPECT_EQ(whole, 2);
}

}  // namespace
}  // namespace whisker::test
