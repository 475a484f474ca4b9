// Every fused operator of batch norms against its fallback, the plain operators, on every device
// with kernels for them and in every type: one row of the table for each operator and shape.
#include "core/backend/backend.h"
#include "core/backend/fused_ops.h"
#include "core/trace/step_recorder.h"
#include "tests/core/ops/fused/norm_case.h"
#include "tests/support/separated.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

constexpr Uniform uniform{.seed = 17};

/// Of both signs, none near 0.
Values both_signs(int64_t channels) {
  Values values = uniform({channels}, 1, 1, 0.25);
  for (size_t c = 0; c < values.size(); ++c) values[c] *= c % 3 == 1 ? -1 : 1;
  return values;
}

class NormPool final : public NormCase {
 public:
  NormPool(Device device, DType dtype, const Shape& x, const Pool2dOptions& pool,
           const NormCaseOptions& options)
      : NormCase(device, dtype, uniform, options), pool_(pool) {
    add_norm(x, separated(x), both_signs(x[3]), uniform({x[3]}, 2, 0, 0.5));
  }
  Tensor forward() override {
    const Tensor& x = x_of(0);
    const BatchNormOperands norm = operands_of(0);
    if (options_.how == How::fused) return batch_norm_max_pool2d(x, norm, pool_);
    return max_pool2d(batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options), pool_);
  }

 private:
  Pool2dOptions pool_;
};

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

class AddNorms final : public NormCase {
 public:
  AddNorms(Device device, DType dtype, const Shape& shape, const NormCaseOptions& options)
      : NormCase(device, dtype, uniform, options) {
    const Shape channels{shape[-1]};
    add_norm(shape, uniform(shape, 0, 3, 1), uniform(channels, 1, 0.25, 0.125),
             uniform(channels, 2, 0, 0.25));
    add_norm(shape, two_sided(shape), uniform(channels, 4, 2, 0.25), uniform(channels, 5, 0, 0.25));
  }
  Tensor forward() override {
    const Tensor &x = x_of(0), &added = x_of(1);
    const BatchNormOperands own = operands_of(0), other = operands_of(1);
    if (options_.how == How::fused) return add_batch_norms(x, own, added, other);
    const Tensor residual = batch_norm(added, other.gamma, other.beta, other.state, other.options);
    return batch_norm(x, own.gamma, own.beta, own.state, own.options, residual);
  }
};

using Make = std::function<std::unique_ptr<NormCase>(Device, DType, const NormCaseOptions&)>;

struct Row {
  std::string name;  // the fused operator's, and the shape
  Shape x;
  Make make;
  std::vector<std::string> unfused;  // the fallback's operators
  size_t inputs = 3;
  bool same_bits = false;   // of y
  double rounded_sums = 0;  // of gradients, in roundings, by the fallback alone
};

Row norm_pool_row(const Shape& x, const Pool2dOptions& pool) {
  const bool overlap = pool.kernel.h > pool.stride.value_or(pool.kernel).h;
  return {.name = fmt::format("batch_norm_max_pool2d {} kernel {}", x.str(), pool.kernel.h),
          .x = x,
          .make =
              [=](Device device, DType dtype, const NormCaseOptions& options) {
                return std::make_unique<NormPool>(device, dtype, x, pool, options);
              },
          .unfused = {"batch_norm", "max_pool2d"},
          .same_bits = true,
          .rounded_sums = overlap ? 1.0 : 0.0};
}

Row add_norms_row(const Shape& x) {
  return {.name = fmt::format("add_batch_norms {}", x.str()),
          .x = x,
          .make =
              [=](Device device, DType dtype, const NormCaseOptions& options) {
                return std::make_unique<AddNorms>(device, dtype, x, options);
              },
          .unfused = {"batch_norm", "batch_norm"},
          .inputs = 6};
}

const std::vector<Row>& rows() {
  // With and without edges that windows share or reach beyond, packs of channels and none. Odd
  // rows, and enough for deviations that rounding does not swamp; one block and many.
  static const std::vector<Row> all = {
      norm_pool_row({2, 7, 5, 5}, {.kernel = 3, .stride = Pair(2), .padding = 1}),
      norm_pool_row({3, 8, 9, 16}, {.kernel = 3, .stride = Pair(2), .padding = 1}),
      norm_pool_row({5, 29, 31, 64}, {.kernel = 3, .stride = Pair(2), .padding = 1}),
      norm_pool_row({2, 12, 13, 24}, {.kernel = 3, .stride = Pair(2), .ceil = true}),
      norm_pool_row({2, 11, 10, 8},
                    {.kernel = 3, .stride = Pair(2), .padding_mode = PaddingMode::same}),
      norm_pool_row({2, 1, 2, 3}, {.kernel = 3, .stride = Pair(2), .padding = 1}),
      norm_pool_row({2, 10, 9, 4}, {.kernel = 2}),
      norm_pool_row({3, 17, 15, 72}, {.kernel = 2, .padding = 1, .ceil = true}),
      add_norms_row({7, 5}),
      add_norms_row({5, 17}),
      add_norms_row({9, 24}),
      add_norms_row({3, 3, 5, 36}),
      add_norms_row({7, 4100}),
      add_norms_row({2, 15, 17, 64}),
      add_norms_row({5, 29, 31, 128}),
      add_norms_row({67, 2048}),
  };
  return all;
}

template <class Body>
void for_each_row(const std::vector<Device>& devices, const Body& body) {
  for_each_dtype(devices, [&](Device device, DType dtype) {
    for (const Row& row : rows()) {
      SCOPED_TRACE(row.name);
      body(
          row, [&](const NormCaseOptions& options) { return row.make(device, dtype, options); },
          dtype);
    }
  });
}

/// Rows of norm and pooling alone.
template <class Body>
void for_each_pooling(const Body& body) {
  for_each_row(fused_devices(), [&](const Row& row, const auto& make, DType) {
    if (row.same_bits) body(row, make);
  });
}

using FusedNorms = OnFusedKernels;

TEST_F(FusedNorms, AreTheirFallback) {
  for_each_row(fused_devices(), [](const Row& row, const auto& make, DType dtype) {
    for_each_way([&](const NormCaseOptions& fused, const NormCaseOptions& unfused) {
      const Results got = make(fused)->run(), expected = make(unfused)->run();
      if (row.same_bits) {
        EXPECT_EQ(got[0], expected[0]) << "y, bit for bit";
      }
      expect_close(got, expected, dtype, row.x, row.rounded_sums * unit_roundoff(dtype));
    });
  });
}

TEST_F(FusedNorms, TakeStatisticsFromSums) {
  for_each_row(fused_devices(), [](const Row& row, const auto& make, DType dtype) {
    const ActivationSpec activation = row.same_bits ? ActivationSpec{} : relu_spec;
    expect_close(make({.activation = activation, .from_sums = true})->run(),
                 make({.activation = activation})->run(), dtype, row.x, 1e-4);
  });
}

TEST_F(FusedNorms, Repeat) {
  for_each_row(fused_devices(), [](const Row&, const auto& make, DType) {
    const NormCaseOptions options{.two_readers = true};
    const Results first = make(options)->run();
    for (int again = 0; again < 3; ++again) EXPECT_EQ(make(options)->run(), first);
  });
}

TEST_F(FusedNorms, ComputeWhatIsWantedAlone) {
  for_each_row(fused_devices(), [](const Row& row, const auto& make, DType dtype) {
    const Results all = make({})->run();
    for (size_t i = 0; i < row.inputs; ++i) {
      SCOPED_TRACE(i);
      const Results one = make({.wanted = i})->run();
      expect_close({one[0], one[1]}, {all[0], all[1 + i]}, dtype, row.x);
    }
    const NoGrad nothing_wanted;
    EXPECT_EQ(make({})->forward().to_vector(), all[0].second);
  });
}

// As everywhere: see Note [relu's gradient and NaN].
TEST_F(FusedNorms, StopGradientsWhereReluIsZero) {
  for_each_row(fused_devices(), [](const Row& row, const auto& make, DType dtype) {
    std::vector<Results> results;
    for (const double where_zero : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
      const auto norm = make({});
      // Many maxima of windows below 0.
      if (row.same_bits) norm->set_input(2, Values(static_cast<size_t>(row.x[3]), -1.25));
      const Tensor y = norm->forward();
      const int64_t zeros = norm->backward_where_zero(y, where_zero);
      EXPECT_GT(zeros, 0);
      EXPECT_LT(zeros, y.count());
      results.push_back(norm->gradients());
    }
    expect_close(results[1], results[0], dtype, row.x);
  });
}

TEST(FusedNormsOnTheTape, AreOneOperatorWhereTheDeviceHasKernels) {
  for_each_row(test_devices(), [](const Row& row, const auto& make, DType dtype) {
    if (dtype != DType::f32) return;
    const auto names = [&](const NormCaseOptions& options) { return operators_of(*make(options)); };
    for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
      const auto norm = make({.activation = activation});
      const bool fused = has_fused_kernels(norm->device().kind);
      EXPECT_EQ(fused, backend_of(norm->device()).fused_add_norms() != nullptr);
      EXPECT_EQ(fused, backend_of(norm->device()).fused_norm_pool() != nullptr);
      const std::vector<std::string> one = {row.name.substr(0, row.name.find(' '))};
      EXPECT_EQ(operators_of(*norm), fused ? one : row.unfused);
    }
    EXPECT_EQ(names({.training = false}), row.unfused);
  });
}

TEST(FusedNormPool, LeavesOtherWindowsAndActivationsToTheFallback) {
  const Shape x{3, 8, 9, 16};
  const auto names = [&](Device device, const Pool2dOptions& pool, ActivationSpec activation) {
    NormPool norm(device, DType::f32, x, pool, {.activation = activation});
    return operators_of(norm);
  };
  for (const Device device : test_devices()) {
    for (const Pool2dOptions& pool : {Pool2dOptions{.kernel = 3, .stride = Pair(1)},
                                      Pool2dOptions{.kernel = 4, .stride = Pair(2)},
                                      Pool2dOptions{.kernel = {3, 2}, .stride = Pair(2)}}) {
      EXPECT_THAT(names(device, pool, relu_spec), ElementsAre("batch_norm", "max_pool2d"));
    }
    EXPECT_THAT(names(device, {.kernel = 2}, {Activation::tanh}),
                ElementsAre("batch_norm", "tanh", "max_pool2d"));
  }
}

// Of many equal elements, and of more that are so once they are normalised and rounded.
TEST_F(FusedNorms, PoolWithTheBitsOfTheFallbackWithTies) {
  for_each_pooling([](const Row& row, const auto& make) {
    Values x = uniform(row.x, 21, 0, 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? std::round(x[i]) : 100 + x[i];
    Values gamma = both_signs(row.x[3]);
    gamma.back() = 0;
    for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
      std::vector<Values> results;
      for (const How how : {How::fused, How::unfused}) {
        const auto norm = make({.how = how, .activation = activation});
        norm->set_input(0, x);
        norm->set_input(1, gamma);
        results.push_back(norm->forward().to_vector());
      }
      EXPECT_EQ(results[0], results[1]);
    }
  });
}

TEST_F(FusedNorms, SpreadANaNOverItsChannelAlone) {
  for_each_pooling([](const Row& row, const auto& make) {
    const auto whole = make({}), broken = make({});
    Values x = separated(row.x);
    const auto channels = static_cast<size_t>(row.x[3]);
    x[x.size() - channels + 1] = std::numeric_limits<double>::quiet_NaN();  // in channel 1
    broken->set_input(0, x);
    const Values expected = whole->forward().to_vector(), got = broken->forward().to_vector();
    for (size_t i = 0; i < got.size(); ++i) {
      if (i % channels == 1) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(got[i], expected[i]) << i;
      }
    }
  });
}

// gamma is 0 and all elements are equal once normalised: the largest x wins, unfused the first one.
// See Note [Argmax before normalising].
TEST(FusedNormPool, TellsEqualResultsApartByX) {
  for_each_dtype(test_devices(), [&](Device device, DType dtype) {
    NormPool norm(device, dtype, {1, 2, 2, 2}, {.kernel = 2}, {.activation = {}});
    norm.set_input(0, {1, -1, 4, -4, 2, -2, 3, -3});  // two channels
    norm.set_input(1, {0, 0});
    norm.set_input(2, {0.5, 0.5});
    const Tensor y = norm.forward();
    EXPECT_THAT(y.to_vector(), ElementsAre(0.5, 0.5));
    backward(sum(y));
    const Results gradients = norm.gradients();
    const bool fused = has_fused_kernels(device.kind);
    const double deviation = std::sqrt(1.25 + 1e-5);
    const Values dgamma = {((fused ? 4 : 1) - 2.5) / deviation, (-1 + 2.5) / deviation};
    EXPECT_EQ(gradients[0].second, Values(8, 0.0));
    EXPECT_TRUE(close(gradients[1].second, dgamma, 1e-5, 1));
    EXPECT_THAT(gradients[2].second, ElementsAre(1, 1));
  });
}

}  // namespace
}  // namespace whisker::test
