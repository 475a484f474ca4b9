// What the tape holds and for how long: long chains on a small stack, no storage left after a run,
// operators that throw, and backward passes inside backward passes.
#include "core/autograd/autograd.h"
#include "core/tensor/storage.h"
#include "tests/core/trace/tape_support.h"

#include <functional>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Runs fn on a thread whose stack has 8 MiB.
void on_small_stack(std::function<void()> fn) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{8} << 20), 0);
  pthread_t thread;
  auto entry = [](void* work) -> void* {
    (*static_cast<std::function<void()>*>(work))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, entry, &fn), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

constexpr int million = 1'000'000;

TEST(LongChain, ForwardBackwardAndDestruction) {
  const int64_t before = live_storages();
  on_small_stack([] {
    const Tensor x = leaf({1});
    Tensor y = x;
    for (int i = 0; i < million; ++i) y = i % 2 ? affine(y, 0.5, 0) : affine(y, 2, 0);
    backward(y);
    EXPECT_THAT(values(x.grad()), ElementsAre(1));
  });
  EXPECT_EQ(live_storages(), before);
}

TEST(LongChain, DroppedWithoutBackwardWithEverythingSaved) {
  const int64_t before = live_storages();
  on_small_stack([] {
    const Tensor x = leaf({1});
    Tensor y = x;
    for (int i = 0; i < million; ++i) y = tanh(y);
    EXPECT_GT(live_storages(), million);
  });
  EXPECT_EQ(live_storages(), before);
}

TEST(LiveStorages, NoneAfterDoubleBackward) {
  const int64_t before = live_storages();
  {
    const Tensor x = leaf({0.3, 0.4});
    const auto first = grad(sum(tanh(exp(x) / x)), {{x}}, {.create_graph = true});
    backward(sum(first[0] * first[0]));
    EXPECT_TRUE(x.grad().defined());
  }
  EXPECT_EQ(live_storages(), before);
}

TEST(LiveStorages, BackwardGivesBackWhatWasSavedWhileTheRootLives) {
  const Tensor x = leaf({0.5});
  const int64_t before = live_storages();
  const Tensor y = tanh(tanh(tanh(x)));
  EXPECT_EQ(live_storages(), before + 3);
  backward(y);
  EXPECT_EQ(live_storages(), before + 2);  // y itself and x's gradient
}

TEST(LiveStorages, FrozenWeightsSaveNoActivations) {
  const Tensor x = leaf({1, 2});
  const Tensor frozen = ones({2}, exact);
  const int64_t before = live_storages();
  Tensor y = x * 2.0;
  y = mul(y, frozen);  // keeps frozen, not y
  EXPECT_EQ(live_storages(), before + 1);
}

// A recorded operator whose backward is `closure`.
template <class Closure>
Tensor custom(const Tensor& x, Closure closure) {
  const Tensor y = x.clone();
  record("custom", {&x}, y, std::move(closure));
  return y;
}

TEST(Exceptions, LeaveTheGraphAndTheModeAsTheyWere) {
  const Tensor x = leaf({2});
  bool broken = true;
  const Tensor side = x * 4.0;
  const Tensor y = custom(x, [&broken](Gradients& g) {
    if (broken) throw std::runtime_error("closure");
    g.accumulate_grad(0, g.dy() * 3.0);
  });
  const Tensor root = y + side;
  EXPECT_THROW(backward(root, {.retain_graph = true}), std::runtime_error);
  EXPECT_TRUE(grad_mode.enabled);
  broken = false;
  backward(root);
  EXPECT_THAT(values(x.grad()), ElementsAre(7)) << "a gradient of the failed run was left behind";
}

TEST(Reentry, AClosureMayWalkAGraphOfItsOwnOverSharedLeaves) {
  const Tensor x = leaf({2}), w = leaf({5});
  // y = w x, recomputed in backward instead of saved.
  const Tensor y = x.detach() * w.detach();
  const Tensor* const inputs[] = {&x};
  const Tensor* const outputs[] = {&y};
  record("recompute", inputs, outputs, [w, x](Gradients& g) {
    const Tensor again = x.detach().set_requires_grad();
    Tensor value;
    {
      struct Recording {
        bool was = std::exchange(grad_mode.enabled, true);
        ~Recording() { grad_mode.enabled = was; }
      } recording;
      value = again * w;
    }
    backward(value, {.gradient = g.dy()});
    g.accumulate_grad(0, again.grad());
  });
  backward(y * w);  // w^2 x: w is waiting in the outer heap while the inner pass reaches it
  EXPECT_THAT(values(x.grad()), ElementsAre(25));
  EXPECT_THAT(values(w.grad()), ElementsAre(20));
}

TEST(Reentry, AHookMayNotWalkTheGraphBeingWalked) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  const Tensor root = exp(y);
  y.node()->add_hook([&](const Tensor&) {
    backward(root);
    return Tensor();
  });
  EXPECT_THAT(error_of([&] { backward(root, {.retain_graph = true}); }),
              AllOf(HasSubstr("outer backward()"), HasSubstr("mul")));
  EXPECT_TRUE(grad_mode.enabled);
}

}  // namespace
}  // namespace whisker
