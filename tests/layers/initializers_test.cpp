// Distributions of initial values: bounds and moments from their formulas, and independence of
// everything but seed and name.
#include "layers/initializers.h"

#include "core/tensor/philox.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr size_t draws = 200'000;

std::vector<float> draw(const InitializerSpec& spec, Fans fans, bool bias = false) {
  std::vector<float> values(draws);
  make_initializer(spec, fans, bias)(7, stream_of("layer.weight"), values);
  return values;
}

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};
Moments moments_of(const std::vector<float>& values) {
  Moments m{.low = *std::min_element(values.begin(), values.end()),
            .high = *std::max_element(values.begin(), values.end())};
  for (const float v : values) m.mean += v;
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

TEST(Initializers, FansCountTheKernelsArea) {
  EXPECT_EQ(fans_of({64, 3, 5, 16}).in, 240);
  EXPECT_EQ(fans_of({64, 3, 5, 16}).out, 960);
  EXPECT_EQ(fans_of({10, 128}).in, 128);
  EXPECT_EQ(fans_of({10, 128}).out, 10);
}

TEST(Initializers, UniformsStayWithinTheirBound) {
  using enum InitializerKind;
  const Fans fans{.in = 50, .out = 200};
  const std::pair<InitializerSpec, double> rows[] = {
      {{.kind = torch_default}, 1 / std::sqrt(50.0)},
      {{.kind = kaiming_uniform}, std::sqrt(6.0 / 50)},
      {{.kind = kaiming_uniform, .slope = std::sqrt(5.0)}, 1 / std::sqrt(50.0)},
      {{.kind = kaiming_uniform, .fan_out = true}, std::sqrt(6.0 / 200)},
      {{.kind = glorot_uniform}, std::sqrt(6.0 / 250)},
      {{.kind = uniform}, 0.05}};
  for (const auto& [spec, bound] : rows) {
    const Moments m = moments_of(draw(spec, fans));
    EXPECT_GE(m.low, -bound);
    EXPECT_LE(m.high, bound);
    EXPECT_NEAR(m.high, bound, 1e-3 * bound);
    EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), 0.01 * bound);
    EXPECT_NEAR(m.mean, 0, 0.01 * bound);
  }
}

TEST(Initializers, NormalsHaveTheirDeviation) {
  using enum InitializerKind;
  const Fans fans{.in = 50, .out = 200};
  const std::pair<InitializerSpec, double> rows[] = {
      {{.kind = kaiming_normal}, std::sqrt(2.0 / 50)},
      {{.kind = kaiming_normal, .fan_out = true}, std::sqrt(2.0 / 200)},
      {{.kind = glorot_normal}, std::sqrt(2.0 / 250)},
      {{.kind = normal, .deviation = 0.01}, 0.01}};
  for (const auto& [spec, deviation] : rows) {
    const std::vector<float> values = draw(spec, fans);
    const Moments m = moments_of(values);
    EXPECT_NEAR(m.deviation, deviation, 0.01 * deviation);
    EXPECT_NEAR(m.mean, 0, 0.01 * deviation);
    const auto within = std::count_if(values.begin(), values.end(),
                                      [&](float v) { return std::abs(v) < deviation; });
    EXPECT_NEAR(static_cast<double>(within) / draws, 0.6827, 0.005);
  }
}

TEST(Initializers, ElementsDependOnSeedNameAndIndexAlone) {
  for (const InitializerKind kind : {InitializerKind::uniform, InitializerKind::normal}) {
    const Initializer initializer = make_initializer({.kind = kind}, {});
    std::vector<float> full(11), part(6), other_name(11), other_seed(11);
    initializer(1, stream_of("a"), full);
    initializer(1, stream_of("a"), part);
    initializer(1, stream_of("b"), other_name);
    initializer(2, stream_of("a"), other_seed);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), full.begin()));
    EXPECT_NE(full, other_name);
    EXPECT_NE(full, other_seed);
  }
}

TEST(Initializers, KnowKerasAndPytorchsNames) {
  EXPECT_EQ(find_initializer("he_normal")->kind, InitializerKind::kaiming_normal);
  EXPECT_EQ(find_initializer("xavier_uniform")->kind, InitializerKind::glorot_uniform);
  EXPECT_EQ(find_initializer("ones")->value, 1);
  EXPECT_FALSE(find_initializer("glorot"));
}

TEST(Initializers, BiasesRefuseFans) {
  EXPECT_THROW(make_initializer({.kind = InitializerKind::glorot_uniform}, {}, true), Error);
  EXPECT_NO_THROW(make_initializer({}, {.in = 4, .out = 4}, true));
}

}  // namespace
}  // namespace whisker
