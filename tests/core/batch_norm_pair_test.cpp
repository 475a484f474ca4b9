// Two batch norms as one operator against one after the other, on every device and in every type;
// where the device does not join them, both are the same.
#include "core/autograd.h"
#include "core/ops.h"
#include "core/tape_listing.h"
#include "tests/support/devices.h"
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

// Odd rows, and enough for deviations that rounding does not swamp; channels for packs of 16 and 8
// bytes and for none; one block and many, below and beside each other.
const Shape shapes[] = {{7, 5},    {5, 17},         {9, 24},          {3, 3, 5, 36},
                        {7, 4100}, {2, 15, 17, 64}, {5, 29, 31, 128}, {67, 2048}};

using Results = std::vector<std::pair<std::string, std::vector<double>>>;

enum class How : uint8_t { joint, apart };

struct Options {
  How how = How::joint;
  ActivationSpec activation = relu_spec;
  bool two_readers = false;  // of the result: its gradient comes in two parts
  bool from_sums = false;    // statistics from Convolved::sums
  std::vector<int> wanted = {0, 1, 2, 3, 4, 5};
};

std::vector<double> uniform(const Shape& shape, uint64_t stream, double center, double spread) {
  std::vector<double> values =
      rand_uniform(shape, -1, 1, 13, stream, {.device = reference_device}).to_vector();
  for (double& v : values) v = center + spread * v;
  return values;
}

/// In each channel now above, now below its mean, by so much that the sign of the sum follows.
std::vector<double> two_sided(const Shape& shape) {
  std::vector<double> values = uniform(shape, 3, 0, 0.125);
  const int64_t channels = shape[-1];
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    values[i] += 2 + ((at / channels + at % channels) % 2 == 0 ? 1 : -1);
  }
  return values;
}

/// What the convolution before would have left.
Tensor sums_of(const Tensor& x) {
  const Shape rows{x.count() / x.extent(-1), x.extent(-1)};
  const Tensor wide = x.detach().to(DType::f32).reshape(rows);
  const std::vector<double> values = wide.to_vector();
  const auto channels = static_cast<size_t>(rows[1]);
  std::vector<double> sums(2 * channels);
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i % channels] += values[i];
    sums[channels + i % channels] += values[i] * values[i];
  }
  return from_vector(sums, {2, rows[1]}, {.device = x.device()});
}

class Pair {
 public:
  Pair(Device device, DType dtype, const Shape& shape, const Options& options)
      : device_(device), dtype_(dtype), shape_(shape), options_(options) {
    const Shape channels{shape[-1]};
    inputs_ = {tensor(uniform(shape, 0, 3, 1), shape, dtype),
               tensor(uniform(channels, 1, 0.25, 0.125), channels, statistics_type()),
               tensor(uniform(channels, 2, 0, 0.25), channels, statistics_type()),
               tensor(two_sided(shape), shape, dtype),
               tensor(uniform(channels, 4, 2, 0.25), channels, statistics_type()),
               tensor(uniform(channels, 5, 0, 0.25), channels, statistics_type())};
    for (const int i : options.wanted) inputs_[static_cast<size_t>(i)].set_requires_grad();
  }

  Tensor forward(bool training = true) {
    BatchNormOperands own = norm(0, states_[0], training);
    own.options.activation = options_.activation;
    const BatchNormOperands added = norm(3, states_[1], training);
    if (options_.how == How::joint) return batch_norm_pair(inputs_[0], own, inputs_[3], added);
    const Tensor residual =
        batch_norm(inputs_[3], added.gamma, added.beta, added.state, added.options);
    return batch_norm(inputs_[0], own.gamma, own.beta, own.state, own.options, residual);
  }
  Results run() {
    const Tensor y = forward();
    // With a mean far from zero, so that every term of the gradients shows.
    const auto weighted = [&](uint64_t stream) {
      const Tensor by = tensor(uniform(shape_, stream, 0.5, 0.5), shape_, dtype_);
      return sum(widened(y) * widened(by));
    };
    backward(options_.two_readers ? weighted(6) + weighted(7) : weighted(6));
    Results results{{"y", y.to_vector()}};
    append_gradients(results);
    for (const BatchNormState& state : states_) {
      results.emplace_back("pending mean", state.pending_mean.to_vector());
      results.emplace_back("pending variance", state.pending_var.to_vector());
    }
    return results;
  }
  void append_gradients(Results& results) const {
    static const char* const names[] = {"dx", "dgamma", "dbeta", "dadded", "dgamma2", "dbeta2"};
    for (const int i : options_.wanted) {
      const auto at = static_cast<size_t>(i);
      results.emplace_back(names[at], inputs_[at].grad().to_vector());
    }
  }
  Tensor tensor(const std::vector<double>& values, const Shape& shape, DType dtype) const {
    // Rounded once, so that all devices see the same numbers.
    const DType narrow = dtype == DType::f64 ? DType::f32 : dtype;
    return from_vector(values, shape, {.device = reference_device})
        .to(narrow)
        .to(dtype)
        .to(device_);
  }

 private:
  DType statistics_type() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }
  Tensor widened(const Tensor& x) const { return x.to(statistics_type()); }
  BatchNormOperands norm(size_t first, BatchNormState& state, bool training) {
    const Tensor& x = inputs_[first];
    const Shape channels{shape_[-1]};
    const auto statistic = [&](uint64_t stream) {
      return tensor(uniform(channels, stream, 1, 0.5), channels, statistics_type());
    };
    state = {.running_mean = statistic(10 + first),
             .running_var = statistic(20 + first),
             .pending_mean = statistic(30),
             .pending_var = statistic(31)};
    if (options_.from_sums) state.sums = sums_of(x);
    return {.gamma = inputs_[first + 1],
            .beta = inputs_[first + 2],
            .state = state,
            .options = {.training = training, .momentum = first == 0 ? 0.1 : 0.25}};
  }

  Device device_;
  DType dtype_;
  Shape shape_;
  Options options_;
  std::vector<Tensor> inputs_;
  BatchNormState states_[2];
};

Results run(Device device, DType dtype, const Shape& shape, const Options& options) {
  return Pair(device, dtype, shape, options).run();
}

/// Tensors within a few roundings of `dtype`, vectors per channel, which are f32, within some of
/// f32 and of a sum over the rows.
void expect_close(const Results& got, const Results& expected, DType dtype, const Shape& shape,
                  double further = 0) {
  ASSERT_EQ(got.size(), expected.size());
  const int64_t rows = shape.count() / shape[-1];
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].first, expected[i].first);
    const bool whole = got[i].second.size() == static_cast<size_t>(shape.count());
    const DType type = whole || dtype == DType::f64 ? dtype : DType::f32;
    const double scale = whole ? 0.25 : std::sqrt(static_cast<double>(rows));
    EXPECT_TRUE(close(got[i].second, expected[i].second, tolerance(type, rows) + further, scale))
        << got[i].first;
  }
}

template <class Body>
void for_each_case(const Body& body) {
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const Shape& shape : shapes) {
        SCOPED_TRACE(fmt::format("{} {} {}", device.str(), name_of(dtype), shape.str()));
        body(device, dtype, shape);
      }
    }
  }
}

TEST(BatchNormPair, IsTheNormsApart) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
      for (const bool two_readers : {false, true}) {
        SCOPED_TRACE(std::string(activation.kind == Activation::relu ? "relu" : "plain") +
                     (two_readers ? ", gradient in two parts" : ""));
        const Options joint{.activation = activation, .two_readers = two_readers};
        Options apart = joint;
        apart.how = How::apart;
        expect_close(run(device, dtype, shape, joint), run(device, dtype, shape, apart), dtype,
                     shape);
      }
    }
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
    const Options options{.two_readers = true};
    const Results first = run(device, dtype, shape, options);
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(run(device, dtype, shape, options), first);
    }
  });
}

TEST(BatchNormPair, ComputesWhatIsWantedAlone) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    const Results all = run(device, dtype, shape, {});
    for (int i = 0; i < 6; ++i) {
      SCOPED_TRACE(i);
      const Results one = run(device, dtype, shape, {.wanted = {i}});
      const Results expected{all[0], all[1 + static_cast<size_t>(i)]};
      expect_close({one[0], one[1]}, expected, dtype, shape);
    }
  });
}

// As everywhere: see Note [relu's gradient and NaN].
TEST(BatchNormPair, StopsGradientsWhereReluIsZero) {
  for_each_case([](Device device, DType dtype, const Shape& shape) {
    std::vector<Results> results;
    for (const double where_zero : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
      Pair pair(device, dtype, shape, {});
      const Tensor y = pair.forward();
      std::vector<double> dy = uniform(shape, 6, 0.5, 0.25);
      const std::vector<double> at = y.to_vector();
      int64_t zeros = 0;
      for (size_t i = 0; i < dy.size(); ++i) {
        if (at[i] != 0) continue;
        dy[i] = where_zero;
        ++zeros;
      }
      EXPECT_NEAR(static_cast<double>(zeros) / static_cast<double>(shape.count()), 0.5, 0.1);
      backward(y, {.gradient = pair.tensor(dy, shape, dtype)});
      pair.append_gradients(results.emplace_back());
    }
    expect_close(results[1], results[0], dtype, shape);
  });
}

std::vector<std::string> names_of(Device device, const Options& options, bool training) {
  TapeListing listing;
  Pair pair(device, DType::f32, {7, 8}, options);
  const Tensor y = pair.forward(training);
  std::vector<std::string> names;
  for (const TapeEntry& entry : listing.entries()) {
    if (entry.kind == TapeKind::op) names.push_back(entry.name);
  }
  return names;
}

TEST(BatchNormPair, IsOneOperatorWhereTheDeviceJoinsThem) {
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.str());
    const bool joins = joins_batch_norms(zeros({2, 3}, {.device = device}));
    EXPECT_EQ(joins, device.kind != DeviceKind::cpu);
    const auto apart = ElementsAre("batch_norm", "batch_norm");
    if (joins) {
      EXPECT_THAT(names_of(device, {}, true), ElementsAre("batch_norm_pair"));
    } else {
      EXPECT_THAT(names_of(device, {}, true), apart);
    }
    EXPECT_THAT(names_of(device, {}, false), apart);
    EXPECT_EQ(Pair(device, DType::f32, {7, 8}, {}).forward(false).to_vector(),
              Pair(device, DType::f32, {7, 8}, {.how = How::apart}).forward(false).to_vector());
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
