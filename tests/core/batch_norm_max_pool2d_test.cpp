// A batch norm and the max-pooling behind it as one operator against one after the other, on every
// device and in every type; where the device does not join them, both are the same.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/ops.h"
#include "core/pooled_batch_norms.h"
#include "core/tape_listing.h"
#include "tests/support/devices.h"
#include "tests/support/separated.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

constexpr ActivationSpec relu_spec{.kind = Activation::relu};

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

using Values = std::vector<double>;
using Results = std::vector<std::pair<std::string, Values>>;

enum class How : uint8_t { joint, apart };

struct Options {
  How how = How::joint;
  ActivationSpec activation = relu_spec;
  bool two_readers = false;  // of the result: its gradient comes in two parts
  bool from_sums = false;    // statistics from Convolved::sums
  bool training = true;
  std::vector<int> wanted = {0, 1, 2};
};

Values uniform(const Shape& shape, uint64_t stream, double center, double spread) {
  Values values = rand_uniform(shape, -1, 1, 17, stream, {.device = reference_device}).to_vector();
  for (double& v : values) v = center + spread * v;
  return values;
}

/// Of both signs, none near 0.
Values both_signs(int64_t channels) {
  Values values = uniform({channels}, 1, 1, 0.25);
  for (size_t c = 0; c < values.size(); ++c) values[c] *= c % 3 == 1 ? -1 : 1;
  return values;
}

Tensor sums_of(const Tensor& x) {
  const Shape rows{x.count() / x.extent(-1), x.extent(-1)};
  const Values values = x.detach().to(DType::f32).reshape(rows).to_vector();
  const auto channels = static_cast<size_t>(rows[1]);
  Values sums(2 * channels);
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i % channels] += values[i];
    sums[channels + i % channels] += values[i] * values[i];
  }
  return from_vector(sums, {2, rows[1]}, {.device = x.device()});
}

class PooledNorm {
 public:
  PooledNorm(Device device, DType dtype, const Case& of, const Options& options = {})
      : device_(device), dtype_(dtype), case_(of), options_(options) {
    const Shape channels{of.x[3]};
    inputs_ = {tensor(separated(of.x), of.x, dtype),
               tensor(both_signs(of.x[3]), channels, statistics_type()),
               tensor(uniform(channels, 2, 0, 0.5), channels, statistics_type())};
    for (const int i : options.wanted) inputs_[static_cast<size_t>(i)].set_requires_grad();
  }

  void set_input(size_t i, const Values& values) {
    inputs_[i] = tensor(values, inputs_[i].shape(), inputs_[i].dtype());
    inputs_[i].set_requires_grad();
  }
  Tensor forward() {
    const Shape channels{case_.x[3]};
    const auto statistic = [&](uint64_t stream) {
      return tensor(uniform(channels, stream, 1, 0.5), channels, statistics_type());
    };
    state_ = {.running_mean = statistic(10),
              .running_var = statistic(11),
              .pending_mean = statistic(12),
              .pending_var = statistic(13)};
    if (options_.from_sums) state_.sums = sums_of(inputs_[0]);
    const BatchNormOperands norm{
        .gamma = inputs_[1],
        .beta = inputs_[2],
        .state = state_,
        .options = {.training = options_.training, .activation = options_.activation}};
    if (options_.how == How::joint) return batch_norm_max_pool2d(inputs_[0], norm, case_.pool);
    return max_pool2d(batch_norm(inputs_[0], norm.gamma, norm.beta, norm.state, norm.options),
                      case_.pool);
  }
  Results run() {
    const Tensor y = forward();
    // With a mean far from zero, so that every term of the gradients shows.
    const auto weighted = [&](uint64_t stream) {
      const Tensor by = tensor(uniform(y.shape(), stream, 0.5, 0.5), y.shape(), dtype_);
      return sum(y.to(statistics_type()) * by.to(statistics_type()));
    };
    backward(options_.two_readers ? weighted(6) + weighted(7) : weighted(6));
    Results results{{"y", y.to_vector()}};
    append_gradients(results);
    results.emplace_back("pending mean", state_.pending_mean.to_vector());
    results.emplace_back("pending variance", state_.pending_var.to_vector());
    return results;
  }
  void append_gradients(Results& results) const {
    static const char* const names[] = {"dx", "dgamma", "dbeta"};
    for (const int i : options_.wanted) {
      const auto at = static_cast<size_t>(i);
      results.emplace_back(names[at], inputs_[at].grad().to_vector());
    }
  }
  Tensor tensor(const Values& values, const Shape& shape, DType dtype) const {
    // Rounded once, so that all devices see the same numbers.
    const DType narrow = dtype == DType::f64 ? DType::f32 : dtype;
    return from_vector(values, shape, {.device = reference_device})
        .to(narrow)
        .to(dtype)
        .to(device_);
  }

 private:
  DType statistics_type() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }

  Device device_;
  DType dtype_;
  Case case_;
  Options options_;
  std::vector<Tensor> inputs_;
  BatchNormState state_;
};

Results run(Device device, DType dtype, const Case& of, const Options& options) {
  return PooledNorm(device, dtype, of, options).run();
}

/// y and dx within a few roundings of `dtype`, vectors per channel, which are f32, within some of
/// f32 and of a sum over the rows.
void expect_close(const Results& got, const Results& expected, DType dtype, const Case& of,
                  double further = 0) {
  ASSERT_EQ(got.size(), expected.size());
  const int64_t rows = of.x.count() / of.x[3];
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].first, expected[i].first);
    const bool picture = got[i].first == "y" || got[i].first == "dx";
    const DType type = picture || dtype == DType::f64 ? dtype : DType::f32;
    const double scale = picture ? 0.25 : std::sqrt(static_cast<double>(rows));
    EXPECT_TRUE(close(got[i].second, expected[i].second, tolerance(type, rows) + further, scale))
        << got[i].first;
  }
}

template <class Body>
void for_each_case(const Body& body) {
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const Case& of : cases) {
        SCOPED_TRACE(fmt::format("{} {} {} kernel {}", device.str(), name_of(dtype), of.x.str(),
                                 of.pool.kernel.h));
        body(device, dtype, of);
      }
    }
  }
}

TEST(BatchNormMaxPool2d, IsTheLayersApart) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
      for (const bool two_readers : {false, true}) {
        SCOPED_TRACE(std::string(activation.kind == Activation::relu ? "relu" : "plain") +
                     (two_readers ? ", gradient in two parts" : ""));
        const Options joint{.activation = activation, .two_readers = two_readers};
        Options apart = joint;
        apart.how = How::apart;
        const Results got = run(device, dtype, of, joint);
        const Results expected = run(device, dtype, of, apart);
        EXPECT_EQ(got[0], expected[0]) << "y, bit for bit";
        // Where windows overlap, pooling apart rounds the sum of their gradients.
        const bool overlap = of.pool.kernel.h > of.pool.stride->h;
        expect_close(got, expected, dtype, of, overlap ? unit_roundoff(dtype) : 0);
      }
    }
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
                 run(device, dtype, of, {.activation = {}}), dtype, of, 1e-4);
  });
}

TEST(BatchNormMaxPool2d, Repeats) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    const Options options{.two_readers = true};
    const Results first = run(device, dtype, of, options);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(run(device, dtype, of, options), first);
  });
}

TEST(BatchNormMaxPool2d, ComputesWhatIsWantedAlone) {
  for_each_case([](Device device, DType dtype, const Case& of) {
    const Results all = run(device, dtype, of, {});
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE(i);
      const Results one = run(device, dtype, of, {.wanted = {i}});
      expect_close({one[0], one[1]}, {all[0], all[1 + static_cast<size_t>(i)]}, dtype, of);
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
      Values dy = uniform(y.shape(), 6, 0.5, 0.25);
      const Values at = y.to_vector();
      int64_t zeros = 0;
      for (size_t i = 0; i < dy.size(); ++i) {
        if (at[i] != 0) continue;
        dy[i] = where_zero;
        ++zeros;
      }
      EXPECT_GT(zeros, 0);
      EXPECT_LT(zeros, y.count());
      backward(y, {.gradient = norm.tensor(dy, y.shape(), dtype)});
      norm.append_gradients(results.emplace_back());
    }
    expect_close(results[1], results[0], dtype, of);
  });
}

// gamma is 0 and all elements are equal once normalised: the largest x wins, apart the first one.
// See Note [Winners before normalising].
TEST(BatchNormMaxPool2d, TellsEqualResultsApartByX) {
  const Case of{{1, 2, 2, 2}, {.kernel = 2}};
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      SCOPED_TRACE(fmt::format("{} {}", device.str(), name_of(dtype)));
      PooledNorm norm(device, dtype, of, {.activation = {}});
      norm.set_input(0, {1, -1, 4, -4, 2, -2, 3, -3});  // two channels
      norm.set_input(1, {0, 0});
      norm.set_input(2, {0.5, 0.5});
      const Tensor y = norm.forward();
      EXPECT_THAT(y.to_vector(), ElementsAre(0.5, 0.5));
      backward(sum(y));
      Results gradients;
      norm.append_gradients(gradients);
      const bool joint = has_pooled_batch_norms(device.kind);
      const double deviation = std::sqrt(1.25 + 1e-5);
      const Values dgamma = {((joint ? 4 : 1) - 2.5) / deviation, (-1 + 2.5) / deviation};
      EXPECT_EQ(gradients[0].second, Values(8, 0.0));
      EXPECT_TRUE(close(gradients[1].second, dgamma, 1e-5, 1));
      EXPECT_THAT(gradients[2].second, ElementsAre(1, 1));
    }
  }
}

std::vector<std::string> names_of(Device device, const Case& of, const Options& options) {
  TapeListing listing;
  const Tensor y = PooledNorm(device, DType::f32, of, options).forward();
  std::vector<std::string> names;
  for (const TapeEntry& entry : listing.entries()) {
    if (entry.kind == TapeKind::op) names.push_back(entry.name);
  }
  return names;
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
