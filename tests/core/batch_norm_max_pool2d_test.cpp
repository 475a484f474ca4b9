// A batch norm and the max-pooling behind it as one operator against one after the other, on every
// device and in every type; where the device does not join them, both are the same.
#include "core/backend.h"
#include "core/pooled_batch_norms.h"
#include "core/tape_listing.h"
#include "tests/core/joint_norm_case.h"
#include "tests/support/separated.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

constexpr Uniform uniform{.seed = 17};

struct Case {
  Shape x;
  Pool2dOptions pool;
};
// With and without edges that windows share or reach beyond, packs of channels and none.
const Case cases[] = {
    {{2, 7, 5, 5}, {.kernel = 3, .stride = Pair(2), .padding = 1}},
    {{3, 8, 9, 16}, {.kernel = 3, .stride = Pair(2), .padding = 1}},
    {{5, 29, 31, 64}, {.kernel = 3, .stride = Pair(2), .padding = 1}},
    {{2, 12, 13, 24}, {.kernel = 3, .stride = Pair(2), .ceil = true}},
    {{2, 11, 10, 8}, {.kernel = 3, .stride = Pair(2), .padding_mode = PaddingMode::same}},
    {{2, 1, 2, 3}, {.kernel = 3, .stride = Pair(2), .padding = 1}},
    {{2, 10, 9, 4}, {.kernel = 2}},
    {{3, 17, 15, 72}, {.kernel = 2, .padding = 1, .ceil = true}},
};

/// Of both signs, none near 0.
Values both_signs(int64_t channels) {
  Values values = uniform({channels}, 1, 1, 0.25);
  for (size_t c = 0; c < values.size(); ++c) values[c] *= c % 3 == 1 ? -1 : 1;
  return values;
}

class PooledNorm final : public JointNormCase {
 public:
  PooledNorm(Device device, DType dtype, const Case& of, const JointNormOptions& options = {})
      : JointNormCase(device, dtype, uniform, options), pool_(of.pool) {
    add_norm(of.x, separated(of.x), both_signs(of.x[3]), uniform({of.x[3]}, 2, 0, 0.5));
  }
  Tensor forward() override {
    const Tensor& x = x_of(0);
    const BatchNormOperands norm = operands_of(0);
    if (options_.how == How::joint) return batch_norm_max_pool2d(x, norm, pool_);
    return max_pool2d(batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options), pool_);
  }

 private:
  Pool2dOptions pool_;
};

Results run(Device device, DType dtype, const Case& of, const JointNormOptions& options) {
  return PooledNorm(device, dtype, of, options).run();
}

template <class Body>
void for_each_case(const Body& body) {
  for_each_dtype([&](Device device, DType dtype) {
    for (const Case& of : cases) {
      SCOPED_TRACE(fmt::format("{} kernel {}", of.x.str(), of.pool.kernel.h));
      body(device, dtype, of);
    }
  });
}

TEST(BatchNormMaxPool2d, IsTheLayersApart) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    for_each_way([&](const JointNormOptions& joint, const JointNormOptions& apart) {
      const Results got = run(device, dtype, of, joint);
      const Results expected = run(device, dtype, of, apart);
      EXPECT_EQ(got[0], expected[0]) << "y, bit for bit";
      // Where windows overlap, pooling apart rounds the sum of their gradients.
      const bool overlap = of.pool.kernel.h > of.pool.stride->h;
      expect_close(got, expected, dtype, of.x, overlap ? unit_roundoff(dtype) : 0);
    });
  });
}

// Of many equal elements, and of more that are so once they are normalised and rounded.
TEST(BatchNormMaxPool2d, HasTheBitsOfTheLayersApartWithTies) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    Values x = uniform(of.x, 21, 0, 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? std::round(x[i]) : 100 + x[i];
    Values gamma = both_signs(of.x[3]);
    gamma.back() = 0;
    for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
      std::vector<Values> results;
      for (const How how : {How::joint, How::apart}) {
        PooledNorm norm(device, dtype, of, {.how = how, .activation = activation});
        norm.set_input(0, x);
        norm.set_input(1, gamma);
        results.push_back(norm.forward().to_vector());
      }
      EXPECT_EQ(results[0], results[1]);
    }
  });
}

TEST(BatchNormMaxPool2d, SpreadsANaNOverItsChannelAlone) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    PooledNorm whole(device, dtype, of), broken(device, dtype, of);
    Values x = separated(of.x);
    const auto channels = static_cast<size_t>(of.x[3]);
    x[x.size() - channels + 1] = std::numeric_limits<double>::quiet_NaN();  // in channel 1
    broken.set_input(0, x);
    const Values expected = whole.forward().to_vector(), got = broken.forward().to_vector();
    for (size_t i = 0; i < got.size(); ++i) {
      if (i % channels == 1) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(got[i], expected[i]) << i;
      }
    }
  });
}

TEST(BatchNormMaxPool2d, TakesStatisticsFromSums) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    expect_close(run(device, dtype, of, {.activation = {}, .from_sums = true}),
                 run(device, dtype, of, {.activation = {}}), dtype, of.x, 1e-4);
  });
}

TEST(BatchNormMaxPool2d, Repeats) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    const JointNormOptions options{.two_readers = true};
    const Results first = run(device, dtype, of, options);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(run(device, dtype, of, options), first);
  });
}

TEST(BatchNormMaxPool2d, ComputesWhatIsWantedAlone) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    const Results all = run(device, dtype, of, {});
    for (size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(i);
      const Results one = run(device, dtype, of, {.wanted = i});
      expect_close({one[0], one[1]}, {all[0], all[1 + i]}, dtype, of.x);
    }
    const NoGrad nothing_wanted;
    EXPECT_EQ(PooledNorm(device, dtype, of).forward().to_vector(), all[0].second);
  });
}

// As everywhere: see Note [relu's gradient and NaN].
TEST(BatchNormMaxPool2d, StopsGradientsWhereReluIsZero) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    std::vector<Results> results;
    for (const double where_zero : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
      PooledNorm norm(device, dtype, of);
      norm.set_input(2, Values(static_cast<size_t>(of.x[3]), -1.25));  // many maxima below 0
      const Tensor y = norm.forward();
      const int64_t zeros = norm.backward_where_zero(y, where_zero);
      EXPECT_GT(zeros, 0);
      EXPECT_LT(zeros, y.count());
      results.push_back(norm.gradients());
    }
    expect_close(results[1], results[0], dtype, of.x);
  });
}

// gamma is 0 and all elements are equal once normalised: the largest x wins, apart the first one.
// See Note [Winners before normalising].
TEST(BatchNormMaxPool2d, TellsEqualResultsApartByX) {
  const Case of{{1, 2, 2, 2}, {.kernel = 2}};
  for_each_dtype([&](Device device, DType dtype) {
    PooledNorm norm(device, dtype, of, {.activation = {}});
    norm.set_input(0, {1, -1, 4, -4, 2, -2, 3, -3});  // two channels
    norm.set_input(1, {0, 0});
    norm.set_input(2, {0.5, 0.5});
    const Tensor y = norm.forward();
    EXPECT_THAT(y.to_vector(), ElementsAre(0.5, 0.5));
    backward(sum(y));
    const Results gradients = norm.gradients();
    const bool joint = has_pooled_batch_norms(device.kind);
    const double deviation = std::sqrt(1.25 + 1e-5);
    const Values dgamma = {((joint ? 4 : 1) - 2.5) / deviation, (-1 + 2.5) / deviation};
    EXPECT_EQ(gradients[0].second, Values(8, 0.0));
    EXPECT_TRUE(close(gradients[1].second, dgamma, 1e-5, 1));
    EXPECT_THAT(gradients[2].second, ElementsAre(1, 1));
  });
}

std::vector<std::string> names_of(Device device, const Case& of, const JointNormOptions& options) {
  return operators_of(PooledNorm(device, DType::f32, of, options));
}

TEST(BatchNormMaxPool2d, IsOneOperatorWhereTheDeviceJoinsThem) {
  const Case stem = cases[1];
  const auto apart = ElementsAre("batch_norm", "max_pool2d");
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.str());
    const bool joins = backend_of(device).pooled_batch_norms() != nullptr;
    EXPECT_EQ(joins, has_pooled_batch_norms(device.kind));
    for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
      const auto names = names_of(device, stem, {.activation = activation});
      if (joins) {
        EXPECT_THAT(names, ElementsAre("batch_norm_max_pool2d"));
      } else {
        EXPECT_THAT(names, apart);
      }
    }
    EXPECT_THAT(names_of(device, stem, {.training = false}), apart);
    EXPECT_THAT(names_of(device, stem, {.activation = {Activation::tanh}}),
                ElementsAre("batch_norm", "tanh", "max_pool2d"));
    EXPECT_THAT(names_of(device, {stem.x, {.kernel = 3, .stride = Pair(1)}}, {}), apart);
    EXPECT_THAT(names_of(device, {stem.x, {.kernel = 4, .stride = Pair(2)}}, {}), apart);
    EXPECT_THAT(names_of(device, {stem.x, {.kernel = {3, 2}, .stride = Pair(2)}}, {}), apart);
  }
}

// What the norm makes is not among what is kept.
TEST(BatchNormMaxPool2d, KeepsXAndTheWinners) {
  TapeListing listing;
  const Case& stem = cases[1];
  const Tensor y = PooledNorm(reference_device, DType::f32, stem).forward();
  const std::vector<TapeEntry> entries = listing.entries();
  ASSERT_EQ(entries.back().name, "batch_norm_max_pool2d");
  int whole = 0, windows = 0, places = 0;
  for (const TapeSaved& saved : entries.back().saved) {
    whole += saved.shape == stem.x;
    windows += saved.shape == y.shape() && saved.dtype == DType::f32;
    places += saved.shape == y.shape() && saved.dtype == DType::u8;
  }
  EXPECT_EQ(whole, 1);
  EXPECT_EQ(windows, 1);
  EXPECT_EQ(places, 1);
}

}  // namespace
}  // namespace whisker::test
