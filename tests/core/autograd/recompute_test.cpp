// A recomputed part gives the gradients of the plain graph bit for bit, in the same order.
#include "core/autograd/recompute.h"

#include "tests/core/trace/tape_support.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// f(x) as it is, or recomputed.
using Part =
    std::function<Tensor(const RecomputedForward& f, const Tensor& x, std::vector<Tensor> leaves)>;

const Part plain = [](const RecomputedForward& f, const Tensor& x, const std::vector<Tensor>&) {
  return f(x, false);
};
const Part again = [](const RecomputedForward& f, const Tensor& x,
                      const std::vector<Tensor>& leaves) {
  return recompute("part", f, x, leaves);
};

/// f32: sums of three terms depend on their order.
struct Shared {
  Tensor x = rand_normal({4, 3}, 0, 1, 1, 1).set_requires_grad("x");
  Tensor w = rand_normal({3, 3}, 0, 1, 1, 2).set_requires_grad("w");
  Tensor v = rand_normal({3, 3}, 0, 1, 1, 3).set_requires_grad("v");

  /// w is used before, twice inside, and behind the part; x's result beside it.
  Tensor loss(const Part& part) const {
    const Tensor before = tanh(matmul(x, w));
    const Tensor y =
        part([this](const Tensor& h,
                    bool) { return tanh(matmul(h, w) + h) * sigmoid(matmul(h, v)) + matmul(h, w); },
             before, {w, v});
    return sum(pow(matmul(y, w), 2) + before * y + before);
  }
};

struct Finished {
  std::vector<std::string> order;
  std::vector<std::vector<double>> gradients;
};

Finished finish(const Part& part, bool on_leaf) {
  const Shared net;
  Finished finished;
  BackwardOptions options;
  if (on_leaf) {
    options.on_leaf = [&](const Tensor& gradient) {
      for (const auto& [name, leaf] : {std::pair("x", &net.x), {"w", &net.w}, {"v", &net.v}}) {
        if (leaf->grad().defined() && leaf->grad().same(gradient)) finished.order.push_back(name);
      }
    };
  }
  backward(net.loss(part), options);
  for (const Tensor* leaf : {&net.x, &net.w, &net.v}) {
    finished.gradients.push_back(values(leaf->grad()));
  }
  return finished;
}

TEST(Recompute, GradientsAreThoseOfThePlainGraphBitForBit) {
  EXPECT_EQ(finish(again, false).gradients, finish(plain, false).gradients);
}

TEST(Recompute, EachLeafFinishesOnceAndWhereItWould) {
  const Finished expected = finish(plain, true), found = finish(again, true);
  EXPECT_THAT(expected.order, ElementsAre("v", "x", "w"));
  EXPECT_EQ(found.order, expected.order);
  EXPECT_EQ(found.gradients, expected.gradients);
}

TEST(Recompute, PartsWithinPartsRunAgainOnceMore) {
  const auto run = [](const Part& part, int* runs) {
    const Tensor x = leaf({0.5, -1}), w = leaf({2, 3});
    const auto inner = [&](const Tensor& h, bool) {
      ++*runs;
      return tanh(h * w);
    };
    const auto outer = [&](const Tensor& h, bool) { return part(inner, exp(h), {w}) * h; };
    backward(sum(part(outer, x * 2.0, {w})));
    return std::pair(values(x.grad()), values(w.grad()));
  };
  int once = 0, thrice = 0;
  EXPECT_EQ(run(again, &thrice), run(plain, &once));
  EXPECT_EQ(once, 1);
  EXPECT_EQ(thrice, 3);
}

TEST(Recompute, ReadsNoGradientNothingAgain) {
  int runs = 0;
  const auto f = [&](const Tensor& h, bool) {
    ++runs;
    return exp(h);
  };
  const Tensor x = from_vector({1}, {1}, exact), w = leaf({2});
  EXPECT_FALSE(recompute("frozen", f, x, {}).requires_grad());
  {
    const NoGrad evaluation;
    EXPECT_FALSE(recompute("evaluated", f, w, {}).requires_grad());
  }
  EXPECT_EQ(runs, 2);
  const Tensor same = recompute("nothing", [](const Tensor& h, bool) { return h; }, w, {});
  EXPECT_EQ(same.node().get(), w.node().get());
}

TEST(Recompute, KeepsItsInputsAlone) {
  struct Kept final : TapeObserver {
    Kept() { grad_mode.observer = this; }
    ~Kept() override { grad_mode.observer = nullptr; }
    void on_save(const Tensor& x) override { saved.push_back(x.storage()); }
    std::vector<Ref<Storage>> saved;
  };
  const Tensor x = leaf({0.5}), w = leaf({2});
  Kept kept;
  const Tensor y = again([&](const Tensor& h, bool) { return exp(tanh(h * w)); }, x, {w});
  int dropped = 0;
  for (const Ref<Storage>& storage : kept.saved) dropped += storage->use_count() == 1;
  EXPECT_EQ(dropped, 1);  // tanh's result; exp's is y
}

TEST(Recompute, GraphsMayBeWalkedTwice) {
  const Tensor x = leaf({0.5}), w = leaf({2});
  int runs = 0;
  const Tensor y = again(
      [&](const Tensor& h, bool) {
        ++runs;
        return exp(h * w);
      },
      x, {w});
  backward(y, {.retain_graph = true});
  backward(y);
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(values(x.grad()), ElementsAre(4 * std::exp(1.0)));
  EXPECT_THAT(error_of([&] { backward(y); }), HasSubstr("recompute was already used and freed"));
}

TEST(Recompute, GradientsOfGradientsAreThoseOfThePlainGraph) {
  const auto second = [](const Part& part) {
    const Tensor x = leaf({0.5}), w = leaf({2});
    const Tensor y = part([&](const Tensor& h, bool) { return exp(h * w) * h; }, x, {w});
    const Tensor first = grad(y, {{x}}, {.create_graph = true})[0];
    backward(first * first);
    return std::pair(values(x.grad()), values(w.grad()));
  };
  EXPECT_EQ(second(again), second(plain));
  const Tensor image = ones({1, 2, 2, 1}).set_requires_grad();
  const Tensor y = again([](const Tensor& h, bool) { return sum(max_pool2d(h, {})); }, image, {});
  EXPECT_THAT(error_of([&] { grad(y, {{image}}, {.create_graph = true}); }),
              HasSubstr("max_pool2d: gradients of gradients"));
}

TEST(Recompute, GradOfAHiddenValueRunsWhatLeadsToIt) {
  const Tensor x = leaf({0.5}), w = leaf({2});
  const Tensor hidden = x * 3.0;
  const Tensor y = again([&](const Tensor& h, bool) { return exp(h * w); }, hidden, {w});
  const std::vector<Tensor> found = grad(y, {{hidden, w}});
  EXPECT_THAT(values(found[0]), ElementsAre(2 * std::exp(3.0)));
  EXPECT_THAT(values(found[1]), ElementsAre(1.5 * std::exp(3.0)));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Recompute, RefusesWhatWouldComputeSomethingElse) {
  const Tensor w = leaf({2}), constant = from_vector({3}, {1}, exact);
  const auto f = [&](const Tensor& h, bool) { return exp(h * w); };
  const Tensor x = leaf({0.5}) * 1.0;
  const Tensor y = again(f, x, {w, constant});
  constant.fill_(1);
  EXPECT_THAT(
      error_of([&] { backward(y); }),
      HasSubstr("recompute: a tensor of shape (1) saved for backward was changed in place"));
  EXPECT_THAT(
      error_of([&] { recompute("block", f, constant, {}); }),
      HasSubstr("recompute: the result of 'block' needs a gradient, but neither x nor one"));
  const Tensor other = again(
      [](const Tensor& h, bool second) {
        return second ? h * ones({2, 1}, exact) : h * 2.0;
      },
      x, {});
  EXPECT_THAT(error_of([&] { backward(other); }),
              HasSubstr("recompute: expected the (1) f64 of the first time, got (2,1) f64"));
}

}  // namespace
}  // namespace whisker
