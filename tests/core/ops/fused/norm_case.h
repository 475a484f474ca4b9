// A batch norm with its neighbours, as the fused operator and as its fallback, the plain operators:
// results by name, and how close the two must come.
#pragma once

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "core/trace/step_recorder.h"
#include "tests/support/devices.h"
#include "tests/support/tolerance.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {

inline constexpr ActivationSpec relu_spec{.kind = Activation::relu};

using Values = std::vector<double>;
using Results = std::vector<std::pair<std::string, Values>>;

enum class How : uint8_t { fused, unfused };

struct NormCaseOptions {
  How how = How::fused;
  ActivationSpec activation = relu_spec;
  bool two_readers = false;  // of the result: its gradient comes in two parts
  bool from_sums = false;    // statistics from Convolved::sums
  bool training = true;
  std::optional<size_t> wanted = {};  // the one input with a gradient, where not all have one
};

/// Numbers within `spread` of `center`, of one seed.
struct Uniform {
  uint64_t seed;
  Values operator()(const Shape& shape, uint64_t stream, double center, double spread) const {
    Values values =
        rand_uniform(shape, -1, 1, seed, stream, {.device = reference_device}).to_vector();
    for (double& v : values) v = center + spread * v;
    return values;
  }
};

/// What the convolution before would have left: see SummedOutput.
inline Tensor sums_of(const Tensor& x) {
  const Shape rows{x.count() / x.extent(-1), x.extent(-1)};
  const Values values = x.detach().to(DType::f32).reshape(rows).to_vector();
  const auto channels = static_cast<size_t>(rows[1]);
  Values sums(3 * channels);
  for (size_t c = 0; c < channels; ++c) sums[2 * channels + c] = values[c];
  for (size_t i = 0; i < values.size(); ++i) {
    const double deviation = values[i] - values[i % channels];
    sums[i % channels] += deviation;
    sums[channels + i % channels] += deviation * deviation;
  }
  return from_vector(sums, {3, rows[1]}, {.device = x.device()});
}

/// One or two batch norms, each with its x, gamma and beta as three inputs in a row, and the
/// operator that a derived case fuses them with.
class NormCase {
 public:
  NormCase(Device device, DType dtype, Uniform uniform, const NormCaseOptions& options)
      : options_(options), device_(device), dtype_(dtype), uniform_(uniform) {}
  virtual ~NormCase() = default;

  virtual Tensor forward() = 0;
  Device device() const { return device_; }

  Results run() {
    const Tensor y = forward();
    // With a mean far from zero, so that every term of the gradients shows.
    const auto weighted = [&](uint64_t stream) {
      const Tensor by = tensor(uniform_(y.shape(), stream, 0.5, 0.5), y.shape(), dtype_);
      return sum(y.to(statistics_type()) * by.to(statistics_type()));
    };
    backward(options_.two_readers ? weighted(6) + weighted(7) : weighted(6));
    Results results = gradients();
    results.insert(results.begin(), {"y", y.to_vector()});
    for (const BatchNormState& state : states_) {
      results.emplace_back("pending mean", state.pending_mean.to_vector());
      results.emplace_back("pending variance", state.pending_var.to_vector());
    }
    return results;
  }
  Results gradients() const {
    static constexpr std::array names = {"dx", "dgamma", "dbeta", "dadded", "dgamma2", "dbeta2"};
    Results results;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (wants(i)) results.emplace_back(names[i], inputs_[i].grad().to_vector());
    }
    return results;
  }
  /// Goes back from a gradient that is `where_zero` wherever y is 0, and returns at how many
  /// positions.
  int64_t backward_where_zero(const Tensor& y, double where_zero) const {
    Values dy = uniform_(y.shape(), 6, 0.5, 0.25);
    const Values at = y.to_vector();
    int64_t zeros = 0;
    for (size_t i = 0; i < dy.size(); ++i) {
      if (at[i] != 0) continue;
      dy[i] = where_zero;
      ++zeros;
    }
    backward(y, {.gradient = tensor(dy, y.shape(), dtype_)});
    return zeros;
  }
  void set_input(size_t i, const Values& values) {
    inputs_[i] = tensor(values, inputs_[i].shape(), inputs_[i].dtype());
    inputs_[i].set_requires_grad();
  }

 protected:
  void add_norm(const Shape& shape, const Values& x, const Values& gamma, const Values& beta) {
    const Shape channels{shape[-1]};
    inputs_.push_back(tensor(x, shape, dtype_));
    inputs_.push_back(tensor(gamma, channels, statistics_type()));
    inputs_.push_back(tensor(beta, channels, statistics_type()));
    for (size_t i = inputs_.size() - 3; i < inputs_.size(); ++i) {
      if (wants(i)) inputs_[i].set_requires_grad();
    }
    states_.emplace_back();
  }
  const Tensor& x_of(size_t norm) const { return inputs_[3 * norm]; }
  /// With a fresh state.
  BatchNormOperands operands_of(size_t norm) {
    const Tensor& x = x_of(norm);
    const Shape channels{x.extent(-1)};
    const auto statistic = [&](uint64_t stream) {
      return tensor(uniform_(channels, stream, 1, 0.5), channels, statistics_type());
    };
    states_[norm] = {.running_mean = statistic(10 + 3 * norm),
                     .running_var = statistic(20 + 3 * norm),
                     .pending_mean = statistic(30),
                     .pending_var = statistic(31)};
    if (options_.from_sums) states_[norm].sums = sums_of(x);
    return {.gamma = inputs_[3 * norm + 1],
            .beta = inputs_[3 * norm + 2],
            .state = states_[norm],
            .options = {.training = options_.training,
                        .momentum = norm == 0 ? 0.1 : 0.25,
                        .activation = norm == 0 ? options_.activation : ActivationSpec{}}};
  }

  const NormCaseOptions options_;

 private:
  DType statistics_type() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }
  bool wants(size_t input) const { return options_.wanted.value_or(input) == input; }
  Tensor tensor(const Values& values, const Shape& shape, DType dtype) const {
    // Rounded once, so that all devices see the same numbers.
    const DType narrow = dtype == DType::f64 ? DType::f32 : dtype;
    return from_vector(values, shape, {.device = reference_device})
        .to(narrow)
        .to(dtype)
        .to(device_);
  }

  Device device_;
  DType dtype_;
  Uniform uniform_;
  std::vector<Tensor> inputs_;
  std::vector<BatchNormState> states_;
};

/// The names of the operators that a forward pass records.
inline std::vector<std::string> operators_of(NormCase& norm) {
  StepRecorder recorder;
  const Tensor y = norm.forward();
  std::vector<std::string> names;
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.kind == TapeKind::op) names.push_back(entry.name);
  }
  return names;
}

/// Whole tensors within a few roundings of `dtype`, vectors per channel, which are f32, within some
/// of f32 and of a sum over the rows of x.
inline void expect_close(const Results& got, const Results& expected, DType dtype, const Shape& x,
                         double further = 0) {
  ASSERT_EQ(got.size(), expected.size());
  const int64_t rows = x.count() / x[-1];
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = got[i].first;
    ASSERT_EQ(name, expected[i].first);
    const bool whole = name == "y" || name == "dx" || name == "dadded";
    const DType type = whole || dtype == DType::f64 ? dtype : DType::f32;
    const double scale = whole ? 0.25 : std::sqrt(static_cast<double>(rows));
    EXPECT_TRUE(close(got[i].second, expected[i].second, tolerance(type, rows) + further, scale))
        << name;
  }
}

template <class Body>
void for_each_dtype(const std::vector<Device>& devices, const Body& body) {
  for (const Device device : devices) {
    for (const DType dtype : test_dtypes(device)) {
      SCOPED_TRACE(fmt::format("{} {}", device.str(), name_of(dtype)));
      body(device, dtype);
    }
  }
}

/// Options that are to give the same results fused and unfused.
template <class Body>
void for_each_way(const Body& body) {
  for (const ActivationSpec activation : {ActivationSpec{}, relu_spec}) {
    for (const bool two_readers : {false, true}) {
      SCOPED_TRACE(std::string(activation.kind == Activation::relu ? "relu" : "plain") +
                   (two_readers ? ", gradient in two parts" : ""));
      const NormCaseOptions fused{.activation = activation, .two_readers = two_readers};
      NormCaseOptions unfused = fused;
      unfused.how = How::unfused;
      body(fused, unfused);
    }
  }
}

}  // namespace whisker::test
