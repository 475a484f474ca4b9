// The checks of one row. Everything is deterministic: values are keyed by the row's name.
#include "tests/support/check_op.h"

#include "core/autograd/autograd.h"
#include "core/tensor/philox.h"
#include "tests/support/devices.h"
#include "tests/support/poisoned_memory.h"
#include "tests/support/tolerance.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

Values draw(const Input& input, uint64_t stream) {
  const auto count = static_cast<size_t>(input.shape.count());
  PhiloxStream random(7, stream);
  Values values(count);
  if (input.kind == InputKind::index || input.kind == InputKind::mask) {
    const auto bound = input.kind == InputKind::mask ? 2 : static_cast<uint32_t>(input.high);
    for (double& value : values) value = random.below(bound);
    return values;
  }
  // Off the middle of each cell, so that a range around 0 does not hit 0.
  for (size_t i = 0; i < count; ++i) {
    values[i] = input.low + (input.high - input.low) * (static_cast<double>(i) + 0.37) /
                                static_cast<double>(count);
  }
  for (size_t i = count; i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<uint32_t>(i))]);
  }
  return values;
}

DType dtype_of_input(const Input& input, DType real) {
  if (input.kind == InputKind::index) return DType::i64;
  if (input.kind == InputKind::mask) return DType::boolean;
  return real;
}

std::vector<Tensor> make_inputs(const OpCase& row, const std::vector<Values>& values,
                                TensorOptions options) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    const Input& input = row.inputs[i];
    tensors.push_back(
        from_vector(values[i], input.shape,
                    {.dtype = dtype_of_input(input, options.dtype), .device = options.device}));
  }
  return tensors;
}

bool varies(const OpCase& row, size_t i) {
  return row.inputs[i].kind == InputKind::variable;
}

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Arbitrary weights of the results, or direction of a derivative.
Values weights(size_t count, uint64_t stream) {
  PhiloxStream random(11, stream);
  Values values(count);
  for (double& value : values) value = random.uniform(0.5, 1.5) * (random.below(2) ? 1 : -1);
  return values;
}

/// What was computed from one set of inputs: the result and d(weights . result)/d(input).
struct Run {
  Values result;
  std::vector<Values> gradients;
};

Run run(const OpCase& row, const std::vector<Values>& values, TensorOptions options) {
  const std::vector<Tensor> inputs = make_inputs(row, values, options);
  Run run;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (varies(row, i) && row.twice != Twice::not_at_all) inputs[i].set_requires_grad();
  }
  const Tensor y = row.op(inputs);
  run.result = y.to_vector();
  if (row.twice != Twice::not_at_all) {
    const Values w = weights(run.result.size(), 1);
    backward(y, {.gradient = from_vector(w, y.shape(), y.options())});
    for (size_t i = 0; i < inputs.size(); ++i) {
      run.gradients.push_back(varies(row, i) ? inputs[i].grad().to_vector() : Values());
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(inputs[i].to_vector(), values[i]) << "the operator changed input " << i;
  }
  return run;
}

/// Central differences of `f` along every element of every variable input (error O(step^4):
/// Fornberg 1988, table 1).
template <class Fn>
std::vector<Values> finite_differences(const OpCase& row, std::vector<Values> values, Fn&& f) {
  constexpr double step = 0x1p-12;
  std::vector<Values> slopes(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!varies(row, i)) continue;
    for (double& element : values[i]) {
      const double at = element;
      const auto shifted = [&](double steps) {
        element = at + steps * step;
        return f(values);
      };
      slopes[i].push_back((8 * (shifted(1) - shifted(-1)) - (shifted(2) - shifted(-2))) /
                          (12 * step));
      element = at;
    }
  }
  return slopes;
}

constexpr double difference_tolerance = 1e-8;

void check_gradients(const OpCase& row, const std::vector<Values>& values) {
  const Run exact_run = run(row, values, exact);
  const auto loss = [&](const std::vector<Values>& at) {
    const NoGrad off_tape;
    const Values result = row.op(make_inputs(row, at, exact)).to_vector();
    return dot(result, weights(result.size(), 1));
  };
  const auto slopes = finite_differences(row, values, loss);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!varies(row, i)) continue;
    EXPECT_TRUE(close(exact_run.gradients[i], slopes[i], difference_tolerance, 1))
        << "gradient of input " << i << " against finite differences";
  }
}

/// d(weights . result)/d(input) for each variable input, in the order of the inputs, recorded.
std::vector<Tensor> recorded_gradients(const OpCase& row, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (varies(row, i)) leaves.push_back(inputs[i].set_requires_grad());
  }
  const Tensor y = row.op(inputs);
  const Values w = weights(static_cast<size_t>(y.count()), 1);
  return grad(y, leaves,
              {.gradient = from_vector(w, y.shape(), y.options()), .create_graph = true});
}

void check_twice(const OpCase& row, const std::vector<Values>& values) {
  // directions . gradients is a scalar function of the inputs, differentiated once more.
  const auto projection = [&](const std::vector<Values>& at) {
    double sum = 0;
    uint64_t stream = 2;
    for (const Tensor& gradient : recorded_gradients(row, make_inputs(row, at, exact))) {
      const Values g = gradient.to_vector();
      sum += dot(g, weights(g.size(), stream++));
    }
    return sum;
  };
  const std::vector<Tensor> inputs = make_inputs(row, values, exact);
  std::vector<Values> second;
  uint64_t stream = 2;
  Tensor sum_of_all = zeros({}, exact);
  for (const Tensor& gradient : recorded_gradients(row, inputs)) {
    const Values v = weights(static_cast<size_t>(gradient.count()), stream++);
    sum_of_all = sum_of_all + sum(mul(gradient, from_vector(v, gradient.shape(), exact)));
  }
  if (sum_of_all.requires_grad()) backward(sum_of_all);
  const auto slopes = finite_differences(row, values, projection);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!varies(row, i)) continue;
    const Tensor gradient = inputs[i].grad();
    // A gradient that does not depend on this input leaves none: zero.
    const Values got = gradient.defined() ? gradient.to_vector() : Values(slopes[i].size(), 0.0);
    EXPECT_TRUE(close(got, slopes[i], difference_tolerance, 10))
        << "second derivative by input " << i << " against finite differences";
  }
}

void check_refused_twice(const OpCase& row, const std::vector<Values>& values) {
  try {
    recorded_gradients(row, make_inputs(row, values, exact));
    ADD_FAILURE() << "gradients of gradients: expected a refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(
                                  ": gradients of gradients are not available for this operator"));
    const std::string refused(error.what(), std::string_view(error.what()).find(':'));
    // Where a fused operator runs its fallback, one of the plain operators refuses.
    EXPECT_THAT(row.name, ::testing::HasSubstr(refused)) << "the refusal names another operator";
  }
}

/// The inputs as they are after rounding to `dtype`.
std::vector<Values> rounded(const OpCase& row, const std::vector<Values>& values, DType dtype) {
  std::vector<Values> result;
  for (const Tensor& x : make_inputs(row, values, {.dtype = dtype, .device = reference_device})) {
    result.push_back(x.to_vector());
  }
  return result;
}

std::vector<Values> draw_inputs(const OpCase& row) {
  std::vector<Values> values;
  for (const Input& input : row.inputs) {
    values.push_back(draw(input, stream_of(row.name) + values.size()));
  }
  return values;
}

}  // namespace

std::vector<Tensor> inputs_of(const OpCase& row) {
  return make_inputs(row, draw_inputs(row), exact);
}

void check_definition(const OpCase& row) {
  const PoisonedMemory poisoned(reference_device);
  const std::vector<Values> values = draw_inputs(row);
  const Run plain = run(row, values, exact);
  ASSERT_TRUE(row.expected) << "a row needs plain loops to compare with";
  EXPECT_TRUE(
      close(plain.result, row.expected(values), tolerance(DType::f64, row.terms), row.scale))
      << "forward on the reference against plain loops";
  if (row.twice != Twice::not_at_all) check_gradients(row, values);
  if (row.twice == Twice::works) check_twice(row, values);
  if (row.twice == Twice::refused) check_refused_twice(row, values);
}

void check_on(const OpCase& row, Device device) {
  const PoisonedMemory poisoned(device);
  for (const DType dtype : test_dtypes(device)) {
    SCOPED_TRACE(fmt::format("{} {}", device, dtype));
    const std::vector<Values> values = rounded(row, draw_inputs(row), dtype);
    const Run want = run(row, values, exact);
    const Run got = run(row, values, {.dtype = dtype, .device = device});
    const double relative = tolerance(dtype, row.terms);
    EXPECT_TRUE(close(got.result, want.result, relative, row.scale)) << "forward";
    for (size_t i = 0; i < want.gradients.size(); ++i) {
      EXPECT_TRUE(close(got.gradients[i], want.gradients[i], relative, row.scale))
          << "gradient of input " << i;
    }
  }
}

}  // namespace whisker::test
