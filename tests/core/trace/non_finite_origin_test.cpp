// The first NaN or Inf of a step: which operator made it, forwards or backwards, and why.
#include "core/trace/non_finite_origin.h"

#include "core/ops/recurrent.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/tape_support.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;
using Where = NonFiniteOrigin::Where;

struct Planted {
  const char* name;
  Where where;
  const char* label;  // of the operator or operand
  const char* reason;
  std::function<Tensor(const Tensor& x)> loss;  // of x = {1, 2, 0, -3}, f32
};

Recording recording_of(const Planted& one) {
  const Tensor x = from_vector({1, 2, 0, -3}, {4}).set_requires_grad();
  StepRecorder recorder({.values = true});
  recorder.name(x, "x");
  backward(one.loss(x));
  return recorder.recording();
}

TEST(NonFiniteOrigin, NamesTheOperatorAndItsCause) {
  const Planted planted[] = {
      {"a logarithm", Where::forward, "2 log",
       "The logarithm of a negative number is NaN: 1 add goes down to -2.",
       [](const Tensor& x) { return mean(log(x + full({4}, 1))); }},
      {"a square root", Where::backward, "2 sqrt",
       "The slope of sqrt, 1 / (2 sqrt(x)), is infinite at 0: 1 mul has 1 of them.",
       [](const Tensor& x) { return mean(sqrt(x * x)); }},
      {"a quotient", Where::forward, "1 div", "A quotient by 0 is Inf or NaN: x has 1 of them.",
       [](const Tensor& x) { return mean(div(full({4}, 1), x)); }},
      {"an overflow", Where::forward, "2 mul", "beyond 3.403e+38, the largest f32",
       [](const Tensor& x) {
         const Tensor y = affine(x, 1e20, 0);
         return mean(mul(y, y));
       }},
      {"an overflow backwards", Where::backward, "1 affine", "beyond 3.403e+38, the largest f32",
       [](const Tensor& x) { return affine(mean(affine(x, 1e19, 0)), 1e22, 0); }},
      {"a small divisor", Where::forward, "2 div", "beyond 3.403e+38, the largest f32",
       [](const Tensor& x) { return mean(div(full({4}, 1e10), affine(x, 0, 1e-35))); }},
      {"scores of attention", Where::forward, "3 attention", "beyond 3.403e+38, the largest f32",
       [](const Tensor& x) {
         return mean(attention(mul(full({1, 2, 3}, 3e19), slice(x, 0, 0, 1))));
       }},
      {"steps of a recurrent layer", Where::forward, "2 recurrent",
       "beyond 3.403e+38, the largest f32",
       [](const Tensor& x) {
         const RecurrentParameters cell{.w_ih = full({1, 1}, 1), .w_hh = full({1, 1}, 1e14)};
         return mean(
             recurrent(x.reshape({4, 1, 1}), {{cell}}, {.kind = RecurrentKind::rnn_relu}).y);
       }},
      {"a cast", Where::forward, "2 cast", "beyond 6.55e+04, the largest f16",
       [](const Tensor& x) { return mean(cast(cast(affine(x, 5e4, 0), DType::f16), DType::f32)); }},
      {"an operand", Where::operand, "c", "no operator made it",
       [](const Tensor& x) {
         const Tensor c = full({4}, NAN);
         static_cast<StepRecorder*>(grad_mode.observer)->name(c, "c");
         return mean(x * c);
       }},
  };
  for (const Planted& one : planted) {
    const Recording recording = recording_of(one);
    const std::optional<NonFiniteOrigin> origin = NonFiniteOrigin::of(recording);
    ASSERT_TRUE(origin) << one.name;
    EXPECT_EQ(origin->where, one.where) << one.name;
    EXPECT_EQ(recording.label(origin->entry), one.label) << one.name;
    EXPECT_THAT(origin->reasons(recording).front(), HasSubstr(one.reason)) << one.name;
  }
}

TEST(NonFiniteOrigin, AParameterThatWasSo) {
  const Planted planted{"", Where::operand, "", "", [](const Tensor& x) { return mean(x); }};
  const Tensor w = from_vector({1, INFINITY}, {2}).set_requires_grad();
  StepRecorder recorder({.values = true});
  recorder.name(w, "dense.weight");
  backward(mean(w * 2));
  const Recording recording = recorder.recording();
  const std::optional<NonFiniteOrigin> origin = NonFiniteOrigin::of(recording);
  ASSERT_TRUE(origin);
  EXPECT_EQ(recording.label(origin->entry), "dense.weight");
  EXPECT_THAT(origin->reasons(recording).front(), HasSubstr("The step began with it"));
  EXPECT_FALSE(NonFiniteOrigin::of(recording_of(planted))) << "a finite step";
}

}  // namespace
}  // namespace whisker
