// Functions of one element: powers and exponentials, activations, dropout, drop_path.
#include "core/tensor/philox.h"
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace whisker::test {
namespace {

struct Unary {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*plain)(double);
  double low = -1, high = 1;
};

double plain_sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

std::vector<OpCase> unary_rows() {
  const Unary functions[] = {
      {"exp", exp, [](double x) { return std::exp(x); }},
      {"log", log, [](double x) { return std::log(x); }, 0.2, 3},
      {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.2, 3},
      {"reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.3, 2},
      {"reciprocal_negative", reciprocal, [](double x) { return 1 / x; }, -2, -0.3},
      {"abs", abs, [](double x) { return std::fabs(x); }},
      {"affine_negative", [](const Tensor& x) { return -x; }, [](double x) { return -x; }},
      {"affine", [](const Tensor& x) { return affine(x, -1.5, 0.25); },
       [](double x) { return -1.5 * x + 0.25; }},
      {"pow_0", [](const Tensor& x) { return pow(x, 0); }, [](double) { return 1.0; }},
      {"pow_1", [](const Tensor& x) { return pow(x, 1); }, [](double x) { return x; }},
      {"pow_3", [](const Tensor& x) { return pow(x, 3); }, [](double x) { return x * x * x; }},
      {"pow_minus_1_5", [](const Tensor& x) { return pow(x, -1.5); },
       [](double x) { return 1 / (x * std::sqrt(x)); }, 0.5, 2},
      {"clamp", [](const Tensor& x) { return clamp(x, -0.503, 0.401); },
       [](double x) { return std::fmin(std::fmax(x, -0.503), 0.401); }},
      {"relu", relu, [](double x) { return x > 0 ? x : 0; }, -3, 3},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.125); },
       [](double x) { return x > 0 ? x : 0.125 * x; }, -3, 3},
      {"activation_leaky_relu",
       [](const Tensor& x) {
         return activation(x, {Activation::leaky_relu, 0.5f});
       },
       [](double x) { return x > 0 ? x : 0.5 * x; }, -3, 3},
      {"gelu", gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }, -5,
       5},
      {"silu", silu, [](double x) { return x * plain_sigmoid(x); }, -7, 7},
      {"sigmoid", sigmoid, plain_sigmoid, -9, 9},
      {"tanh", tanh, [](double x) { return std::tanh(x); }, -4, 4},
      {"softplus", softplus, [](double x) { return std::log(1 + std::exp(x)); }, -9, 9},
      {"relu6", relu6, [](double x) { return std::clamp(x, 0.0, 6.0); }, -3, 9},
      {"hard_sigmoid", hard_sigmoid, [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }, -5,
       5},
      {"hard_swish", hard_swish, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }, -5,
       5},
  };
  std::vector<OpCase> rows;
  for (const Unary& f : functions) {
    for (const Shape& shape : {Shape{1}, Shape{67}, Shape{3, 5, 7}, Shape{0, 2}, Shape{}}) {
      rows.push_back({.name = fmt::format("{}_{}", f.name, tag(shape)),
                      .inputs = {variable(shape, f.low, f.high)},
                      .op = [f](Inputs x) { return f.op(x[0]); },
                      .expected =
                          [f](Plain x) {
                            Values y;
                            for (const double value : x[0]) y.push_back(f.plain(value));
                            return y;
                          },
                      .scale = 1});
    }
  }
  return rows;
}

// The mask as core/backend/dropout_mask.h states it, written out once more.
bool plain_keeps(const RandomKey& key, double rate, uint64_t element) {
  uint64_t z = key.step;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z = z ^ (z >> 31);
  const uint32_t word = philox_block(key.seed, key.stream ^ z, element / 4)[element % 4];
  return static_cast<double>(word) >= std::round(rate * 4294967296.0);
}

std::vector<OpCase> dropout_rows() {
  std::vector<OpCase> rows;
  for (const double rate : {0.0, 0.3, 0.5, 0.99}) {
    for (const uint64_t step : {uint64_t{0}, uint64_t{5}}) {
      const RandomKey key{.seed = 3, .stream = stream_of("dropout_1"), .step = step};
      rows.push_back({.name = fmt::format("dropout_rate_{:.0f}_step_{}", 100 * rate, step),
                      .inputs = {variable({9, 11})},
                      .op = [rate, key](Inputs x) { return dropout(x[0], rate, key); },
                      .expected =
                          [rate, key](Plain x) {
                            Values y = x[0];
                            for (size_t i = 0; i < y.size(); ++i) {
                              y[i] = plain_keeps(key, rate, i) ? y[i] / (1 - rate) : 0;
                            }
                            return y;
                          },
                      .scale = 1});
    }
  }
  const RandomKey key{.seed = 3, .stream = 6};
  for (const Shape& shape : {Shape{9}, Shape{6, 2, 3}}) {
    rows.push_back({.name = fmt::format("drop_path_{}", tag(shape)),
                    .inputs = {variable(shape)},
                    .op = [key](Inputs x) { return drop_path(x[0], 0.4, key); },
                    .expected =
                        [key, shape](Plain x) {
                          Values y = x[0];
                          const size_t size = y.size() / static_cast<size_t>(shape[0]);
                          for (size_t i = 0; i < y.size(); ++i) {
                            y[i] = plain_keeps(key, 0.4, i / size) ? y[i] / 0.6 : 0;
                          }
                          return y;
                        },
                    .scale = 1});
  }
  return rows;
}

}  // namespace

std::vector<OpCase> activation_rows() {
  std::vector<OpCase> rows = unary_rows();
  append(rows, dropout_rows());
  return rows;
}

}  // namespace whisker::test
