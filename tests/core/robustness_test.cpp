// No operator crashes, overflows or reads out of bounds, whatever it is given: each call gives a
// result or one Error. Arguments come from a seeded generator that mixes sensible values with
// -1, 0, 1, 2^31-1, 2^31, 2^63-1, empty and rank-9 shapes, bad labels and NaN. Each operator must
// show results and errors, else its generator proves nothing. WHISKER_LONG=1 tries 50 times more;
// run it under the asan preset.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/ops.h"
#include "core/philox.h"
#include "tests/support/devices.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr int64_t two_31 = int64_t{1} << 31;
constexpr int64_t greatest = std::numeric_limits<int64_t>::max();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Draws arguments: mostly sensible, sometimes not.
class Arguments {
 public:
  Arguments(Device device, uint64_t stream) : device_(device), random_(2, stream) {}

  bool sometimes(double probability) { return random_.uniform() < probability; }
  int64_t below(int64_t bound) { return random_.below(static_cast<uint32_t>(bound)); }

  int64_t evil() {
    constexpr int64_t values[] = {-1, 0, 1, two_31 - 1, two_31, greatest};
    return values[below(6)];
  }
  /// In [low, high], or now and then an extreme.
  int64_t attribute(int64_t low, int64_t high) {
    return sometimes(0.08) ? evil() : low + below(high - low + 1);
  }
  int axis() { return static_cast<int>(attribute(-2, 2)); }
  double real() {
    constexpr double values[] = {
        0, 1, -1, 0.5, 1e30, nan, -std::numeric_limits<double>::infinity()};
    return sometimes(0.2) ? values[below(7)] : random_.uniform(-1, 1);
  }
  Pair pair(int64_t low, int64_t high) { return {attribute(low, high), attribute(low, high)}; }

  Shape shape(int rank) {
    if (sometimes(0.02)) rank = 9;
    if (sometimes(0.03)) rank = static_cast<int>(below(9));
    std::vector<int64_t> extents;
    for (int i = 0; i < rank; ++i) {
      extents.push_back(sometimes(0.02) ? evil() : sometimes(0.03) ? 0 : 1 + below(4));
    }
    return Shape(std::span<const int64_t>(extents));
  }
  Shape shape() { return shape(static_cast<int>(below(5))); }
  /// `wanted`, or now and then another.
  Shape mostly(const Shape& wanted) { return sometimes(0.1) ? shape(wanted.rank()) : wanted; }

  Tensor tensor(const Shape& shape) {
    const DType dtype = sometimes(0.03) ? DType::i64 : sometimes(0.03) ? DType::f64 : DType::f32;
    if (sometimes(0.02)) return {};
    const Tensor x = full(shape, real(), {.dtype = dtype, .device = device_});
    if (is_floating(dtype) && sometimes(0.7)) x.set_requires_grad();
    return x;
  }
  /// i64 in [0, extent), now and then one outside.
  Tensor index(const Shape& shape, int64_t extent) {
    const Tensor x = full(shape, 0, {.dtype = DType::i64, .device = device_});
    std::vector<int64_t> values(static_cast<size_t>(x.count()));
    for (int64_t& value : values) {
      value = sometimes(0.02) ? evil() : below(std::clamp<int64_t>(extent, 1, 100));
    }
    if (!values.empty()) backend_of(device_).upload(values.data(), x.raw(), x.bytes());
    return x;
  }
  ActivationSpec activation() {
    return {static_cast<Activation>(below(8)), static_cast<float>(real())};
  }

 private:
  Device device_;
  PhiloxStream random_;
};

struct Operator {
  const char* name;
  std::function<Tensor(Arguments&)> call;
};
void PrintTo(const Operator& op, std::ostream* out) {
  *out << op.name;
}

Tensor call_binary(Tensor (*op)(const Tensor&, const Tensor&), Arguments& a) {
  const Shape shape = a.shape();
  return op(a.tensor(shape), a.tensor(a.sometimes(0.3) ? a.shape() : shape));
}

Axes some_axes(Arguments& a) {
  Axes axes;
  for (int64_t i = a.below(3); i > 0; --i) axes.push_back(a.axis());
  return axes;
}

std::vector<Operator> pointwise() {
  std::vector<Operator> operators;
  for (const auto& [name, op] :
       {std::pair("add", &add), std::pair("sub", &sub), std::pair("mul", &mul),
        std::pair("div", &div), std::pair("maximum", &maximum), std::pair("minimum", &minimum),
        std::pair("equal", &equal), std::pair("less", &less)}) {
    operators.push_back({name, [op = op](Arguments& a) { return call_binary(op, a); }});
  }
  for (const auto& [name, op] : {std::pair("exp", static_cast<Tensor (*)(const Tensor&)>(exp)),
                                 std::pair("log", static_cast<Tensor (*)(const Tensor&)>(log)),
                                 std::pair("sqrt", static_cast<Tensor (*)(const Tensor&)>(sqrt)),
                                 std::pair("abs", &abs), std::pair("reciprocal", &reciprocal)}) {
    operators.push_back({name, [op = op](Arguments& a) { return op(a.tensor(a.shape())); }});
  }
  operators.push_back({"pow", [](Arguments& a) { return pow(a.tensor(a.shape()), a.real()); }});
  operators.push_back(
      {"clamp", [](Arguments& a) { return clamp(a.tensor(a.shape()), a.real(), a.real()); }});
  operators.push_back(
      {"affine", [](Arguments& a) { return affine(a.tensor(a.shape()), a.real(), a.real()); }});
  operators.push_back({"where", [](Arguments& a) {
                         const Shape s = a.shape();
                         return where(cast(a.tensor(a.mostly(s)), DType::boolean),
                                      a.tensor(a.mostly(s)), a.tensor(s));
                       }});
  operators.push_back({"cast", [](Arguments& a) {
                         return cast(a.tensor(a.shape()), static_cast<DType>(a.below(8)));
                       }});
  operators.push_back(
      {"activation", [](Arguments& a) { return activation(a.tensor(a.shape()), a.activation()); }});
  operators.push_back({"dropout", [](Arguments& a) {
                         const RandomKey key{static_cast<uint64_t>(a.evil()), 1, 2};
                         return dropout(a.tensor(a.shape()), a.real(), key);
                       }});
  return operators;
}

std::vector<Operator> shapes() {
  std::vector<Operator> operators;
  for (const auto& [name, op] : {std::pair("sum", &sum), std::pair("mean", &mean),
                                 std::pair("max", &max), std::pair("min", &min)}) {
    operators.push_back({name, [op = op](Arguments& a) {
                           const Tensor x = a.tensor(a.shape());
                           return op(x, some_axes(a), {.keep_axes = a.sometimes(0.5)});
                         }});
  }
  operators.push_back({"var", [](Arguments& a) {
                         const Tensor x = a.tensor(a.shape());
                         return var(x, some_axes(a), {}, static_cast<int>(a.attribute(0, 1)));
                       }});
  operators.push_back(
      {"argmax", [](Arguments& a) { return argmax(a.tensor(a.shape()), a.axis()); }});
  operators.push_back(
      {"sum_to", [](Arguments& a) { return sum_to(a.tensor(a.shape()), a.shape(1)); }});
  operators.push_back(
      {"reshape", [](Arguments& a) {
         return a.tensor(a.shape()).reshape({a.attribute(1, 4), a.attribute(-1, 4)});
       }});
  operators.push_back({"transpose", [](Arguments& a) {
                         return transpose(a.tensor(a.shape(3)), {a.axis(), a.axis(), a.axis()});
                       }});
  operators.push_back({"broadcast_to", [](Arguments& a) {
                         return broadcast_to(a.tensor(a.shape(1)), a.shape(2));
                       }});
  operators.push_back({"concat", [](Arguments& a) {
                         const Shape s = a.shape();
                         return concat({a.tensor(s), a.tensor(a.mostly(s))}, a.axis());
                       }});
  operators.push_back({"slice", [](Arguments& a) {
                         return slice(a.tensor(a.shape(2)), a.axis(), a.attribute(0, 1),
                                      a.attribute(1, 3));
                       }});
  operators.push_back({"split", [](Arguments& a) {
                         const int64_t sizes[] = {a.attribute(0, 2), a.attribute(0, 2)};
                         return split(a.tensor(a.shape(2)), sizes, a.axis())[0];
                       }});
  operators.push_back({"pad", [](Arguments& a) {
                         const std::pair<int64_t, int64_t> amounts[] = {
                             {a.attribute(0, 2), a.attribute(0, 2)},
                             {a.attribute(0, 2), a.attribute(0, 2)}};
                         return pad(a.tensor(a.shape(2)), amounts, a.real());
                       }});
  operators.push_back({"gather", [](Arguments& a) {
                         const Shape s = a.shape(2);
                         const int axis = static_cast<int>(a.below(2));
                         const int64_t extent = s.rank() == 2 ? s[axis] : 1;
                         const Tensor x = a.tensor(s);
                         return gather(x, a.sometimes(0.9) ? axis : a.axis(),
                                       a.index(a.mostly(s), extent));
                       }});
  operators.push_back({"embedding", [](Arguments& a) {
                         const Shape s = a.shape(2);
                         const Tensor x = a.tensor(s);
                         return embedding(x, a.index(a.shape(), s.rank() > 0 ? s[0] : 1));
                       }});
  operators.push_back({"one_hot", [](Arguments& a) {
                         return one_hot(a.index(a.shape(), 3), a.attribute(3, 5),
                                        static_cast<DType>(a.below(8)));
                       }});
  return operators;
}

std::vector<Operator> products_and_windows() {
  return {
      {"matmul",
       [](Arguments& a) {
         const int64_t k = 1 + a.below(4);
         return matmul(a.tensor(a.mostly({2, 3, k})), a.tensor(a.mostly({k, 4})));
       }},
      {"linear",
       [](Arguments& a) {
         const Tensor b = a.sometimes(0.5) ? a.tensor(a.mostly({4})) : Tensor();
         return linear(a.tensor(a.mostly({2, 3})), a.tensor(a.mostly({4, 3})), b, a.activation());
       }},
      {"conv2d",
       [](Arguments& a) {
         const Conv2dOptions options{
             .stride = a.pair(1, 2),
             .padding = a.pair(0, 2),
             .padding_mode = static_cast<PaddingMode>(a.below(3)),
             .dilation = a.pair(1, 2),
             .groups = a.attribute(1, 2),
             .activation = a.activation(),
             .max_pool = a.sometimes(0.3) ? std::optional(Pool2dOptions{.kernel = a.pair(1, 2),
                                                                        .stride = a.pair(1, 2),
                                                                        .padding = a.pair(0, 1)})
                                          : std::nullopt};
         const Tensor b = a.sometimes(0.5) ? a.tensor(a.mostly({4})) : Tensor();
         const int64_t c = options.groups == 1 ? 4 : 2;
         return conv2d(a.tensor(a.mostly({2, 5, 6, 4})), a.tensor(a.mostly({4, 2, 3, c})), b,
                       options);
       }},
      {"max_pool2d",
       [](Arguments& a) {
         const Pool2dOptions options{.kernel = a.pair(1, 3),
                                     .stride = a.pair(1, 2),
                                     .padding = a.pair(0, 1),
                                     .padding_mode = static_cast<PaddingMode>(a.below(3)),
                                     .ceil = a.sometimes(0.5)};
         return max_pool2d(a.tensor(a.mostly({2, 5, 4, 3})), options);
       }},
      {"avg_pool2d",
       [](Arguments& a) {
         const Pool2dOptions options{.kernel = a.pair(1, 3),
                                     .stride = a.pair(1, 2),
                                     .padding = a.pair(0, 1),
                                     .padding_mode = static_cast<PaddingMode>(a.below(3)),
                                     .ceil = a.sometimes(0.5),
                                     .count_padding = a.sometimes(0.5)};
         return avg_pool2d(a.tensor(a.mostly({2, 5, 4, 3})), options);
       }},
      {"adaptive_avg_pool2d",
       [](Arguments& a) {
         return adaptive_avg_pool2d(a.tensor(a.mostly({2, 5, 4, 3})), a.pair(1, 7));
       }},
      {"global_avg_pool2d", [](Arguments& a) { return global_avg_pool2d(a.tensor(a.shape(4))); }},
  };
}

std::vector<Operator> norms_and_losses() {
  return {
      {"batch_norm",
       [](Arguments& a) {
         const Shape channels = a.mostly({3});
         BatchNormState state;
         for (Tensor* t :
              {&state.running_mean, &state.running_var, &state.pending_mean, &state.pending_var}) {
           *t = a.tensor(a.mostly(channels)).detach();
         }
         const Shape shape = a.mostly({2, 2, 3, 3});
         const Tensor residual = a.sometimes(0.5) ? a.tensor(a.mostly(shape)) : Tensor();
         return batch_norm(a.tensor(shape), a.tensor(a.mostly(channels)), a.tensor(channels), state,
                           {.training = a.sometimes(0.5),
                            .momentum = a.sometimes(0.2) ? a.real() : 0.1,
                            .epsilon = a.sometimes(0.2) ? a.real() : 1e-5,
                            .activation = a.activation()},
                           residual);
       }},
      {"layer_norm",
       [](Arguments& a) {
         return layer_norm(a.tensor(a.mostly({2, 5})), a.tensor(a.mostly({5})),
                           a.tensor(a.mostly({5})), a.sometimes(0.2) ? a.real() : 1e-5);
       }},
      {"softmax", [](Arguments& a) { return softmax(a.tensor(a.shape()), a.axis()); }},
      {"log_softmax", [](Arguments& a) { return log_softmax(a.tensor(a.shape()), a.axis()); }},
      {"cross_entropy",
       [](Arguments& a) {
         const Shape s = a.mostly({3, 4});
         const bool soft = a.sometimes(0.4);
         const CrossEntropyOptions options{
             .label_smoothing = a.sometimes(0.3) ? a.real() : 0,
             .class_weight = a.sometimes(0.3) ? a.tensor(a.mostly({4})) : Tensor()};
         const Tensor logits = a.tensor(s);
         const Tensor target =
             soft ? a.tensor(a.mostly(s)).detach() : a.index(a.mostly({s[0]}), s[-1]);
         return cross_entropy(logits, target, options);
       }},
      {"binary_cross_entropy_with_logits",
       [](Arguments& a) {
         const Shape s = a.shape();
         const Tensor logits = a.tensor(s);
         return binary_cross_entropy_with_logits(logits, a.tensor(a.mostly(s)).detach());
       }},
      {"mse_loss",
       [](Arguments& a) {
         const Shape s = a.shape();
         return mse_loss(a.tensor(s), a.tensor(a.mostly(s)));
       }},
  };
}

class Robustness : public ::testing::TestWithParam<Operator> {};

TEST_P(Robustness, AResultOrOneError) {
  const char* more = std::getenv("WHISKER_LONG");
  const int calls = more && *more == '1' ? 20000 : 400;
  for (const Device device : test_devices()) {
    backend_of(device).set_memory_options({.limit_bytes = 4 << 20, .poison = true});
    Arguments arguments(device, stream_of(GetParam().name));
    int results = 0, errors = 0;
    for (int i = 0; i < calls; ++i) {
      try {
        const Tensor y = GetParam().call(arguments);
        y.to_vector();
        if (y.requires_grad()) backward(y, {.gradient = ones(y.shape(), y.options())});
        ++results;
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        ++errors;
      }
    }
    EXPECT_GT(results, calls / 20) << device.str();
    EXPECT_GT(errors, calls / 100) << device.str();
    std::cout << fmt::format("{} on {}: {} calls, {} results, {} errors, 0 crashes\n",
                             GetParam().name, device, calls, results, errors);
    backend_of(device).set_memory_options({});
  }
}

std::vector<Operator> all_operators() {
  std::vector<Operator> operators;
  for (auto* family : {pointwise, shapes, products_and_windows, norms_and_losses}) {
    for (Operator& op : family()) operators.push_back(std::move(op));
  }
  return operators;
}

INSTANTIATE_TEST_SUITE_P(, Robustness, ::testing::ValuesIn(all_operators()),
                         [](const auto& op) { return std::string(op.param.name); });

}  // namespace
}  // namespace whisker::test
