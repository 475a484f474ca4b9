// What backward() and grad() compute, and what they refuse.
#include "core/autograd/autograd.h"

#include "tests/core/trace/tape_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using testing::StartsWith;

TEST(Backward, DiamondAddsBothWays) {
  const Tensor x = leaf({3});
  const Tensor left = x * 2.0, right = x * x;
  backward(sum(left * right));  // 2 x^3
  EXPECT_THAT(values(x.grad()), ElementsAre(54));
}

TEST(Backward, DeepDiamondsRunEachNodeOnce) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 40; ++i) y = y + y;  // 2^40 paths
  Listing listing;
  backward(y);
  EXPECT_EQ(listing.ran.size(), 41u);
  EXPECT_THAT(values(x.grad()), ElementsAre(std::ldexp(1.0, 40)));
}

TEST(Backward, AccumulatesOverRunsUntilCleared) {
  const Tensor x = leaf({4});
  backward(x * x);
  const Tensor held = x.grad();
  backward(x * x);
  EXPECT_THAT(values(x.grad()), ElementsAre(16));
  EXPECT_THAT(values(held), ElementsAre(8)) << "a held gradient changed under its holder";
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  backward(x * 3.0);
  EXPECT_THAT(values(x.grad()), ElementsAre(3));
}

TEST(Backward, OneGradientGivenToTwoLeavesIsNotShared) {
  const Tensor a = leaf({1}), b = leaf({1});
  backward(a + b);  // both receive dy itself
  backward(a * 10.0);
  EXPECT_THAT(values(a.grad()), ElementsAre(11));
  EXPECT_THAT(values(b.grad()), ElementsAre(1));
  const Tensor c = leaf({1}), d = leaf({1});
  backward(c + d);
  c.grad().fill_(5);  // as clipping in place would
  EXPECT_THAT(values(d.grad()), ElementsAre(1));
}

TEST(Backward, CallersGradientIsLeftAlone) {
  const Tensor x = leaf({1, 2});
  const Tensor dy = from_vector({10, 20}, {2}, exact);
  backward(add(x, x), {.gradient = dy});
  EXPECT_THAT(values(x.grad()), ElementsAre(20, 40));
  EXPECT_THAT(values(dy), ElementsAre(10, 20));
  x.zero_grad();
  backward(x, {.gradient = dy});
  backward(x, {.gradient = dy});
  EXPECT_THAT(values(x.grad()), ElementsAre(20, 40));
  EXPECT_THAT(values(dy), ElementsAre(10, 20));
}

// Each as soon as its last user has run: `last` before the product with `first` is walked, a leaf
// that only a product off the way to y uses never.
TEST(Backward, TellsWhenALeafIsFinished) {
  const Tensor first = leaf({2}), both = leaf({3}), last = leaf({5}), unused = leaf({7});
  Listing listing;
  const Tensor x = first * both;
  const Tensor dead = last * unused;
  const Tensor y = exp(x) * both * last;
  std::vector<std::pair<double, size_t>> finished;  // gradient, operators run before
  BackwardOptions options;
  options.on_leaf = [&](const Tensor& gradient) {
    finished.emplace_back(gradient.item(), listing.ran.size());
  };
  backward(y, options);
  ASSERT_EQ(finished.size(), 3u);
  const double e6 = std::exp(6.0);
  EXPECT_NEAR(finished[0].first, 3 * e6, 1e-3 * e6);            // last: exp(x) both
  EXPECT_NEAR(finished[1].first, 45 * e6, 1e-2 * e6);           // first, in the oldest product
  EXPECT_NEAR(finished[2].first, 5 * e6 * (1 + 6), 1e-2 * e6);  // both, there too
  EXPECT_LT(finished[0].second, finished[1].second);
  EXPECT_FALSE(unused.grad().defined());
  const std::vector<double> before = {first.grad().item(), both.grad().item(), last.grad().item()};
  for (const Tensor& x1 : {first, both, last}) x1.zero_grad();
  backward(exp(first * both) * both * last);
  EXPECT_EQ(before,
            (std::vector<double>{first.grad().item(), both.grad().item(), last.grad().item()}));
}

TEST(Backward, RefusesRootsItCannotStartFrom) {
  const Tensor x = leaf({1, 2});
  EXPECT_THAT(error_of([&] { backward(x * x); }),
              AllOf(StartsWith("2: backward:"), HasSubstr("shape (2)")));
  EXPECT_THAT(error_of([&] { backward(sum(x.detach())); }), HasSubstr("has no graph"));
  EXPECT_THAT(error_of([&] { backward(x * x, {.gradient = ones({3}, exact)}); }),
              AllOf(HasSubstr("(3)"), HasSubstr("(2)")));
  EXPECT_THAT(error_of([&] { backward(sum(x), {.create_graph = true}); }), HasSubstr("grad()"));
}

TEST(Backward, FreedGraphIsRefusedAndRetainedOneRunsAgain) {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  backward(y, {.retain_graph = true});
  backward(y);
  EXPECT_THAT(values(x.grad()), ElementsAre(12));
  EXPECT_THAT(error_of([&] { backward(y); }),
              AllOf(HasSubstr("mul"), HasSubstr("already used"), HasSubstr("retain_graph")));
}

TEST(Backward, ChangedSavedTensorIsCaughtAndNamed) {
  const Tensor x = leaf({3});
  const Tensor factor = from_vector({2}, {1}, exact);
  const Tensor y = mul(x, factor);
  factor.fill_(5);
  EXPECT_THAT(error_of([&] { backward(y); }),
              AllOf(StartsWith("2: mul:"), HasSubstr("changed in place"), HasSubstr("(1)")));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, ChangeThroughAViewIsCaughtToo) {
  const Tensor x = leaf({3, 4});
  const Tensor factor = from_vector({2, 2}, {2}, exact);
  const Tensor y = sum(mul(x, factor));
  slice(factor, 0, 1, 2).fill_(5);
  EXPECT_THAT(error_of([&] { backward(y); }), StartsWith("2: mul:"));
}

TEST(Backward, ChangeOfATensorNobodySavedIsFine) {
  const Tensor x = leaf({3});
  const Tensor term = from_vector({2}, {1}, exact);
  const Tensor y = add(x, term);
  term.fill_(5);
  backward(y);
  EXPECT_THAT(values(x.grad()), ElementsAre(1));
}

TEST(Backward, ResultsOnTheTapeRefuseInPlaceWrites) {
  const Tensor x = leaf({3});
  const Tensor y = exp(x);
  EXPECT_THAT(error_of([&] { y.fill_(0); }), AllOf(HasSubstr("fill_"), HasSubstr("exp")));
}

// y = x, whose backward notes in how many parts its gradient arrived.
Tensor noting(const Tensor& x, int& parts) {
  const Tensor y = x.clone();
  record("noting", {&x}, y, [&parts](Gradients& g) {
    const UnsummedGrads dy = g.unsummed_grads();
    parts = dy.second.defined() ? 2 : 1;
    g.accumulate_grad(0, g.dy());
  });
  return y;
}

TEST(UnsummedGrads, TwoContributionsArriveApartAndAddUpOnDemand) {
  int parts = 0;
  const Tensor x = leaf({3, 5});
  const Tensor y = noting(x, parts);
  backward(sum(y * 2.0) + sum(y * y));
  EXPECT_EQ(parts, 2);
  EXPECT_THAT(values(x.grad()), ElementsAre(8, 12));
  const Tensor z = leaf({3, 5});
  const Tensor thrice = noting(z, parts);
  backward(sum(thrice * 2.0) + sum(thrice * thrice) + sum(thrice * 3.0));
  EXPECT_EQ(parts, 2);
  EXPECT_THAT(values(z.grad()), ElementsAre(11, 15));
}

TEST(UnsummedGrads, TheRootsGradientIsOnePart) {
  int parts = 0;
  const Tensor x = leaf({3});
  backward(noting(x, parts));
  EXPECT_EQ(parts, 1);
  EXPECT_THAT(values(x.grad()), ElementsAre(1));
  const Tensor y = leaf({4});
  const Tensor hooked = noting(y, parts);
  hooked.node()->add_hook([](const Tensor& dy) { return dy * 7.0; });
  backward(hooked);
  EXPECT_THAT(values(y.grad()), ElementsAre(7));
  const Tensor given = leaf({2});
  backward(noting(given, parts), {.gradient = full({1}, 3, given.options())});
  EXPECT_EQ(parts, 1);
  EXPECT_THAT(values(given.grad()), ElementsAre(3));
}

TEST(BroadcastGrads, AddToAGradientThatIsThereAndAreWrittenOutAlone) {
  const Tensor x = leaf({1, 2, 3, 4}, {1, 2, 1, 2});
  const Tensor h = x * 1.0;
  const Tensor scale = mean(h, {1, 2});  // (1, 2): (2, 3)
  backward(sum(h * scale.reshape({1, 1, 1, 2})));
  // d/dh of h_pc m_c, where m_c = (h_0c + h_1c) / 2: m_c + (h_0c + h_1c) / 2
  EXPECT_THAT(values(x.grad()), ElementsAre(4, 6, 4, 6));
  const Tensor alone = leaf({1, 2, 3, 4}, {1, 2, 1, 2});
  backward(sum(mean(alone, {1, 2})));
  EXPECT_THAT(values(alone.grad()), Each(0.5));
}

TEST(BroadcastGrads, LeaveAGradientThatOthersReadAlone) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor h = a * 1.0;
  const Tensor total = sum(h);
  // `add` gives its dy to h and to b; sum's goes to h alone.
  const Tensor y = add(h, b);
  backward(sum(y * y) + total);
  EXPECT_THAT(values(b.grad()), ElementsAre(8, 12));
  EXPECT_THAT(values(a.grad()), ElementsAre(9, 13));
}

TEST(NoGradScope, RecordsNothingAndNests) {
  const Tensor x = leaf({3});
  {
    const NoGrad outer;
    { const NoGrad inner; }
    EXPECT_FALSE((x * x).requires_grad());
  }
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(Hooks, SeeTheCompleteGradientAndMayReplaceIt) {
  const Tensor x = leaf({3});
  const Tensor y = x * 2.0;
  std::vector<double> seen;
  y.node()->add_hook([&](const Tensor& dy) {
    seen = values(dy);
    return dy * 10.0;
  });
  y.node()->add_hook([](const Tensor& dy) { return dy + 1.0; });
  y.node()->add_hook([](const Tensor&) { return Tensor(); });
  backward(y * y + y);  // dy = 2 y + 1 = 13, then 131
  EXPECT_THAT(seen, ElementsAre(13));
  EXPECT_THAT(values(x.grad()), ElementsAre(262));
}

TEST(Hooks, OnALeafSeeOneRunAtATime) {
  const Tensor x = leaf({3});
  x.node()->add_hook([](const Tensor& dy) { return clamp(dy, -1, 1); });
  backward(x * 5.0);
  backward(x * 0.5);
  EXPECT_THAT(values(x.grad()), ElementsAre(1.5));
}

TEST(Hooks, AnswerOfAnotherShapeIsRefused) {
  const Tensor x = leaf({3, 4});
  x.node()->add_hook([](const Tensor& dy) { return sum(dy); });
  EXPECT_THAT(error_of([&] { backward(sum(x)); }), AllOf(HasSubstr("hook"), HasSubstr("(2)")));
}

TEST(Grad, TouchesNoLeafAndReachesInteriorTensors) {
  const Tensor x = leaf({2}), w = leaf({5}), other = leaf({1});
  const Tensor inner = x * x;
  const Tensor root = inner * w;
  const Tensor wanted[] = {x, inner, other, root, x};
  const auto g = grad(root, wanted);
  EXPECT_THAT(values(g[0]), ElementsAre(20));
  EXPECT_THAT(values(g[1]), ElementsAre(5));
  EXPECT_FALSE(g[2].defined());
  EXPECT_THAT(values(g[3]), ElementsAre(1));
  EXPECT_THAT(values(g[4]), ElementsAre(20));
  EXPECT_FALSE(x.grad().defined() || w.grad().defined());
}

TEST(Grad, RunsOnlyWhatLeadsToItsInputs) {
  const Tensor x = leaf({2});
  const Tensor hidden = exp(x);
  const Tensor root = sum(log(hidden));
  Listing listing;
  const auto g = grad(root, {{hidden}});
  EXPECT_THAT(listing.ran, ElementsAre("sum", "log", "exp"));  // exp only hands its gradient over
  EXPECT_NEAR(values(g[0])[0], std::exp(-2), 1e-15);
}

TEST(Grad, RefusesInputsOffTheTape) {
  const Tensor x = leaf({2});
  const Tensor constant = ones({1}, exact);
  EXPECT_THAT(error_of([&] { grad(x * constant, {{constant}}); }),
              HasSubstr("requires no gradient"));
}

TEST(LeafSlot, FirstContributionOverwritesLaterOnesAdd) {
  const Tensor slot = full({2}, std::nan(""), exact);
  const Tensor x = from_vector({1, 2}, {2}, exact);
  const Ref<Leaf> node(new Leaf(x, slot));
  x.attach(Ref<Node>(node.get()), 0);
  backward(sum(tanh(x) + x * x));  // one closure writes the slot itself, another gives
  const double t1 = std::tanh(1), t2 = std::tanh(2);
  EXPECT_NEAR(values(slot)[0], 1 - t1 * t1 + 2, 1e-15);
  EXPECT_NEAR(values(slot)[1], 1 - t2 * t2 + 4, 1e-15);
  EXPECT_TRUE(node->gradient().same(slot));
  backward(sum(x * 3.0));
  EXPECT_NEAR(values(slot)[1], 1 - t2 * t2 + 7, 1e-15);
  node->clear();
  backward(sum(relu(x)));
  EXPECT_THAT(values(slot), ElementsAre(1, 1));
  node->clear();
  slot.fill_(-7);
  const auto g = grad(sum(tanh(x)), {{x}});
  EXPECT_THAT(values(slot), Each(-7)) << "grad() wrote to a parameter's gradient";
  EXPECT_NEAR(values(g[0])[0], 1 - t1 * t1, 1e-15);
  x.attach({}, 0);
}

TEST(LeafSlot, OneLeafInTwoPlacesOfOneOperator) {
  const Tensor slot = full({2, 2}, std::nan(""), exact);
  const Tensor x = from_vector({1, 2, 3, 4}, {2, 2}, exact);
  x.attach(Ref<Node>(new Leaf(x, slot)), 0);
  backward(sum(linear(x, x, {})));  // x x^T: both gradients through target()
  EXPECT_THAT(values(slot), ElementsAre(8, 12, 8, 12));
  x.attach({}, 0);
}

}  // namespace
}  // namespace whisker
