// No operator crashes, overflows or reads out of bounds, whatever it is given: each call gives a
// result or one Error. Every row of the operator table gets arguments from a seeded generator that
// mixes sensible values with -1, 0, 1, 2^31-1, 2^31, 2^63-1, empty and rank-9 shapes, bad labels
// and NaN. Each must show results and errors, else the generator proves nothing. WHISKER_LONG=1
// tries 50 times more; run it under the asan preset.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/tensor/philox.h"
#include "tests/support/devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/special_values.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>

namespace whisker::test {
namespace {

constexpr int64_t two_31 = int64_t{1} << 31;
constexpr int64_t greatest = std::numeric_limits<int64_t>::max();

/// Draws arguments: mostly sensible, sometimes not; in some calls hardly ever, in others often.
class WrongArguments final : public Arguments {
 public:
  WrongArguments(Device device, uint64_t stream)
      : Arguments(stream), device_(device), random_(2, stream) {}

  void begin_call() {
    constexpr double chances[] = {0.01, 0.05, 0.3};
    chance_ = chances[below(3)];
  }

  Shape shape(const Shape& usual) override {
    if (!sometimes(2 * chance_)) return usual;
    int64_t rank = usual.rank();
    if (sometimes(0.3)) rank = below(6);
    if (sometimes(0.05)) rank = 9;
    std::vector<int64_t> extents;
    for (int64_t i = 0; i < rank; ++i) {
      const bool same = i < usual.rank() && sometimes(0.5);
      const int64_t other = sometimes(0.05) ? evil() : sometimes(0.05) ? 0 : 1 + below(4);
      extents.push_back(same ? usual[static_cast<int>(i)] : other);
    }
    return Shape(std::span<const int64_t>(extents));
  }
  Tensor operand(const char*, const Shape& shape, double low, double high) override {
    const Tensor x = constant(shape, low, high);
    if (x.defined() && is_floating(x.dtype()) && sometimes(0.7)) x.set_requires_grad();
    return x;
  }
  Tensor constant(const Shape& shape, double low, double high) override {
    if (sometimes(chance_)) return {};
    const DType dtype =
        sometimes(chance_) ? (sometimes(0.5) ? DType::i64 : DType::f64) : DType::f32;
    return full(this->shape(shape), sometimes(chance_) ? special() : random_.uniform(low, high),
                {.dtype = dtype, .device = device_});
  }
  Tensor index(const Shape& shape, int64_t extent) override {
    const Tensor x = full(this->shape(shape), 0, {.dtype = DType::i64, .device = device_});
    std::vector<int64_t> values(static_cast<size_t>(x.count()));
    for (int64_t& value : values) {
      value = sometimes(0.2 * chance_) ? evil() : below(std::clamp<int64_t>(extent, 1, 100));
    }
    if (!values.empty()) backend_of(device_).upload(values.data(), x.raw(), x.bytes());
    return x;
  }
  int64_t integer(int64_t usual, int64_t low, int64_t high) override {
    if (sometimes(chance_)) return evil();
    return sometimes(0.5) ? usual : low + below(high - low + 1);
  }
  int choice(int usual, int options) override {
    return sometimes(0.5) ? usual : static_cast<int>(below(options));
  }
  double real(double usual) override {
    if (sometimes(2 * chance_)) return special();
    return sometimes(chance_) ? random_.uniform(-1, 1) : usual;
  }
  Axes axes(const Axes& usual) override {
    if (sometimes(0.5)) return usual;
    Axes axes;
    for (int64_t i = below(3); i > 0; --i) axes.push_back(static_cast<int>(integer(0, -3, 2)));
    return axes;
  }

 private:
  bool sometimes(double probability) { return random_.uniform() < probability; }
  int64_t below(int64_t bound) { return random_.below(static_cast<uint32_t>(bound)); }
  int64_t evil() {
    constexpr int64_t values[] = {-1, 0, 1, two_31 - 1, two_31, greatest};
    return values[below(6)];
  }
  double special() {
    constexpr double values[] = {0, 1, -1, 1e30, nan, -infinity};
    return values[below(6)];
  }

  Device device_;
  PhiloxStream random_;
  double chance_ = 0;
};

/// An error of wrong arguments begins with an operator's name, or with what was wrong before one
/// was called.
bool names_an_operator(const Error& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(':'));
  return name == "tensor" || name == "shape" ||
         std::ranges::any_of(operator_table(),
                             [&](const OperatorRow& row) { return name == row.name; });
}

using Robustness = EveryOperator;

TEST_P(Robustness, AResultOrOneError) {
  const char* more = std::getenv("WHISKER_LONG");
  const int calls = more && *more == '1' ? 20000 : 400;
  for (const Device device : test_devices()) {
    backend_of(device).set_memory_options({.limit_bytes = 64 << 20, .poison = true});
    WrongArguments arguments(device, stream_of(GetParam().name));
    int results = 0, errors = 0;
    for (int i = 0; i < calls; ++i) {
      try {
        arguments.begin_call();
        const Tensor y = GetParam().call(arguments);
        y.to_vector();
        if (y.requires_grad()) backward(y, {.gradient = ones(y.shape(), y.options())});
        ++results;
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        EXPECT_TRUE(error.kind() != ErrorKind::usage || names_an_operator(error)) << error.what();
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

INSTANTIATE_TEST_SUITE_P(, Robustness, EveryOperator::rows(), EveryOperator::name);

}  // namespace
}  // namespace whisker::test
