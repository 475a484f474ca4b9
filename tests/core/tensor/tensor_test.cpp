// Handles, views, creation, host access and in-place writes.
#include "core/tensor/tensor.h"

#include "tests/core/trace/tape_support.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Lt;

TEST(Tensors, ReshapeAndFirstAxisSlicesAreViews) {
  const Tensor x = from_vector({1, 2, 3, 4, 5, 6}, {3, 2}, exact);
  const Tensor flat = x.reshape({-1});
  const Tensor rows = slice(x, 0, 1, 3);
  EXPECT_TRUE(flat.storage() == x.storage() && rows.storage() == x.storage());
  EXPECT_EQ(rows.offset(), 2);
  EXPECT_TRUE(flat.whole_storage() && !rows.whole_storage());
  rows.fill_(9);
  EXPECT_THAT(values(x), ElementsAre(1, 2, 9, 9, 9, 9));
  EXPECT_THAT(values(slice(rows, 0, 1, 2)), ElementsAre(9, 9));
  const Tensor column = slice(x, 1, 0, 1);
  EXPECT_FALSE(column.storage() == x.storage());
}

TEST(Tensors, ReshapeResolvesOneOpenExtent) {
  const Tensor x = zeros({2, 3, 4}, exact);
  EXPECT_EQ(x.reshape({4, -1}).shape(), (Shape{4, 6}));
  EXPECT_THAT(error_of([&] { x.reshape({-1, -1}); }), HasSubstr("only one extent"));
  EXPECT_THAT(error_of([&] { x.reshape({5, -1}); }), HasSubstr("do not fill"));
  EXPECT_THAT(error_of([&] { x.reshape({5, 5}); }), AllOf(HasSubstr("24"), HasSubstr("(5,5)")));
  EXPECT_THAT(error_of([&] { x.reshape({0, -1}); }), HasSubstr("do not fill"));
  EXPECT_THAT(error_of([&] { x.reshape({int64_t{1} << 62, 4, -1}); }), HasSubstr("reshape"));
  EXPECT_THAT(error_of([&] { x.reshape({-2, -12}); }), HasSubstr("-2"));
}

TEST(Tensors, HostAccessChecksTheType) {
  const Tensor x = from_vector({1, 2}, {2}, exact);
  EXPECT_EQ(x.data<double>()[1], 2);
  EXPECT_THAT(error_of([&] { x.data<float>(); }), AllOf(HasSubstr("f64"), HasSubstr("f32")));
  EXPECT_THAT(error_of([&] { x.item(); }), HasSubstr("one element"));
  EXPECT_THAT(error_of([] { Tensor().shape(); }), HasSubstr("undefined"));
}

TEST(Tensors, CreationConvertsToEveryType) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    EXPECT_THAT(values(from_vector({0, 1, 200}, {3}, {dtype, reference_device})),
                ElementsAre(0, 1, 200));
  }
  EXPECT_THAT(values(from_vector({0, 5}, {2}, {DType::boolean, reference_device})),
              ElementsAre(0, 1));
  EXPECT_THAT(values(full({2}, 2.5, exact)), Each(2.5));
  EXPECT_THAT(values(arange(3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(error_of([] { from_vector({1, 2}, {3}, exact); }), HasSubstr("(3)"));
  EXPECT_EQ(zeros({0, 4}, exact).to_vector().size(), 0u);
}

TEST(Tensors, RandomValuesDependOnSeedAndStreamAlone) {
  const auto draw = [](Device device, uint64_t seed, uint64_t stream) {
    return values(rand_normal({5}, 0, 1, seed, stream, {DType::f32, device}));
  };
  EXPECT_EQ(draw(reference_device, 1, 2), draw(cpu_device, 1, 2));
  EXPECT_NE(draw(cpu_device, 1, 2), draw(cpu_device, 1, 3));
  EXPECT_NE(draw(cpu_device, 1, 2), draw(cpu_device, 2, 2));
  // The first ones do not depend on how many are drawn.
  const std::vector<double> more = values(rand_normal({9}, 0, 1, 1, 2));
  EXPECT_EQ(std::vector(more.begin(), more.begin() + 5), draw(cpu_device, 1, 2));
}

TEST(Tensors, RandomValuesHaveTheirRangeMeanAndDeviation) {
  const std::vector<double> uniform = rand_uniform({10'000}, -1, 3, 7, 1, exact).to_vector();
  EXPECT_THAT(uniform, Each(AllOf(Ge(-1), Lt(3))));
  EXPECT_LT(*std::ranges::min_element(uniform), -0.99);
  EXPECT_GT(*std::ranges::max_element(uniform), 2.99);
  const Tensor normal = rand_normal({10'000}, 5, 0.5, 7, 1, exact);
  EXPECT_NEAR(mean(normal).item(), 5, 0.02);
  EXPECT_NEAR(std::sqrt(var(normal).item()), 0.5, 0.02);
}

TEST(Tensors, CopiesCrossDevicesAndTypes) {
  const Tensor x = from_vector({1.5, -2}, {2}, {DType::f32, cpu_device});
  const Tensor there = x.to(reference_device);
  EXPECT_EQ(there.device(), reference_device);
  EXPECT_THAT(values(there), ElementsAre(1.5, -2));
  EXPECT_TRUE(x.to(cpu_device).same(x));
  EXPECT_THAT(values(x.to(DType::i32)), ElementsAre(1, -2));
  const Tensor y = x.clone();
  y.fill_(0);
  EXPECT_THAT(values(x), ElementsAre(1.5, -2));
  y.copy_(there);
  EXPECT_THAT(values(y), ElementsAre(1.5, -2));
  EXPECT_THAT(error_of([&] { y.copy_(zeros({3})); }), AllOf(HasSubstr("(2)"), HasSubstr("(3)")));
}

TEST(Tensors, WritesRaiseTheVersion) {
  const Tensor x = zeros({2}, exact);
  const uint64_t before = x.storage()->version();
  x.fill_(1);
  x.reshape({2, 1}).copy_(ones({2, 1}, exact));
  EXPECT_EQ(x.storage()->version(), before + 2);
}

TEST(Tensors, OnlyFloatingTensorsHaveGradients) {
  EXPECT_THAT(error_of([] { arange(2).set_requires_grad(); }), HasSubstr("i64"));
  EXPECT_THAT(error_of([] { zeros({2}).grad(); }), HasSubstr("leaves"));
}

std::string printed(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

TEST(Tensors, PrintShapeDtypeOriginAndTheFirstValues) {
  EXPECT_EQ(printed(from_vector({1, -2.5, 1e-7}, {3, 1})), "(3,1) f32: 1, -2.5, 1e-07");
  EXPECT_EQ(printed(arange(9)), "(9) i64: 0, 1, 2, 3, 4, 5, 6, 7, ...");
  EXPECT_EQ(printed(arange(8)), "(8) i64: 0, 1, 2, 3, 4, 5, 6, 7");
  EXPECT_EQ(printed(slice(arange(9), 0, 7, 9)), "(2) i64: 7, 8");
  EXPECT_EQ(printed(full({}, 9007199254740992.0, {.dtype = DType::i64})),
            "() i64: 9007199254740992");
  EXPECT_EQ(printed(ones({2}, {.dtype = DType::bf16})), "(2) bf16: 1, 1");
  EXPECT_EQ(printed(ones({1}, {.dtype = DType::boolean})), "(1) bool: true");
  EXPECT_EQ(printed(full({1}, 1.0 / 3, exact)), "(1) f64 on reference: 0.333333");
  EXPECT_EQ(printed(zeros({0, 2})), "(0,2) f32: ");
  EXPECT_EQ(printed(Tensor()), "undefined tensor");
}

TEST(Tensors, LeavesCarryNames) {
  const Tensor x = ones({1}), w = ones({1});
  x.set_requires_grad();
  w.set_requires_grad(std::string("we") + "ights");
  EXPECT_EQ(printed(x), "(1) f32, leaf: 1");
  EXPECT_EQ(printed(w), "(1) f32, leaf weights: 1");
  EXPECT_EQ(printed(x * w), "(1) f32, result of mul: 1");
  EXPECT_STREQ(w.node()->name(), "weights");
}

}  // namespace
}  // namespace whisker
