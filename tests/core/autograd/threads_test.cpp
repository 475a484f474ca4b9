// Threads that run backward at the same time over graphs that share leaves. Most tests start the
// second thread in a hook of the first one's run, so that the order is the same each time.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/support/error_of.h"

#include <cmath>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TensorOptions exact = {.dtype = DType::f64, .device = reference_device};

Tensor shared_leaf(double value, TensorOptions options = exact) {
  return from_vector({value}, {1}, options).set_requires_grad();
}

void on_a_thread(const std::function<void()>& work) {
  std::thread(work).join();
}

// w^2 x. When backward comes to x's node, older than the two that read w, `meanwhile` runs.
Tensor with_pause(const Tensor& w, const std::function<void()>& meanwhile) {
  const Tensor x = shared_leaf(3, w.options());
  const Tensor older = x * 1.0;
  older.node()->add_hook([meanwhile](const Tensor&) {
    meanwhile();
    return Tensor();
  });
  return older * w * w;
}

constexpr int rounds = 10'000;

// Runs `each(thread)` so often on each of four threads, which begin together.
void on_four_threads(const std::function<void(int)>& each) {
  std::latch all_there(4);
  std::vector<std::thread> threads;
  for (int thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&, thread] {
      all_there.arrive_and_wait();
      for (int i = 0; i < rounds; ++i) each(thread);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadsOfBackward, AddUpExactly) {
  const Tensor w = shared_leaf(2, {});
  on_four_threads([&](int thread) { backward(full({1}, thread) * w * w); });
  EXPECT_EQ(w.grad().item(), rounds * (1 + 2 + 3 + 4) * 4);
}

TEST(ThreadsOfBackward, AddUpExactlyInAParametersMemory) {
  const Tensor slot = full({1}, std::nan(""));
  const Tensor w = from_vector({1}, {1});
  w.attach(Ref<Node>(new Leaf(w, slot)), 0);
  // relu's closure writes its gradient into the slot where that is the first.
  on_four_threads([&](int thread) { backward(full({1}, thread) * relu(w) + relu(w)); });
  EXPECT_EQ(slot.item(), rounds * (1 + 2 + 3 + 4 + 4));
  EXPECT_TRUE(w.grad().same(slot));
  w.attach({}, 0);
}

TEST(ThreadsOfBackward, GradIsEachThreadsOwn) {
  const Tensor w = shared_leaf(2, {});
  std::vector<double> wrong(5);
  on_four_threads([&](int thread) {
    const std::vector<Tensor> g = grad(full({1}, thread) * w * w, {{w}});
    if (g[0].item() != 4 * thread) ++wrong[static_cast<size_t>(thread)];
  });
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_FALSE(w.grad().defined());
}

TEST(ThreadsOfBackward, ALeafOfAnotherRunTakesBothGradients) {
  const Tensor w = shared_leaf(2);
  double apart = 0, added = 0;
  backward(with_pause(w, [&] {
    on_a_thread([&] {
      apart = grad(w * w * w, {{w}})[0].item();
      backward(w * 5.0);
      added = w.grad().item();
    });
  }));
  EXPECT_EQ(apart, 12);
  EXPECT_EQ(added, 5) << "the thread's own run was complete";
  EXPECT_EQ(w.grad().item(), 12 + 5);
}

// What `meanwhile` adds to w while another run writes into w's slot.
double slot_after(const std::function<void(const Tensor&)>& meanwhile, std::string* error) {
  const Tensor slot = full({1}, std::nan(""), exact);
  const Tensor w = from_vector({2}, {1}, exact);
  w.attach(Ref<Node>(new Leaf(w, slot)), 0);
  const Tensor x = shared_leaf(3);
  const Tensor older = x * 1.0;
  older.node()->add_hook([&](const Tensor&) {
    meanwhile(w);
    return Tensor();
  });
  const Tensor root = older * 1.0 + relu(w);
  *error = error_of([&] { backward(root); });
  w.attach({}, 0);
  return slot.item();
}

TEST(ThreadsOfBackward, WaitWhileARunWritesIntoAParametersMemory) {
  std::string error;
  const auto twice = [](const Tensor& w) {
    on_a_thread([&] {
      backward(relu(w) * 5.0);
      backward(w * 7.0);
    });
  };
  EXPECT_EQ(slot_after(twice, &error), 1 + 5 + 7);
  EXPECT_EQ(error, "");
  const auto and_throw = [&](const Tensor& w) {
    twice(w);
    fail(ErrorKind::usage, "a hook failed");
  };
  EXPECT_EQ(slot_after(and_throw, &error), 5 + 7) << "without the failed run";
  EXPECT_THAT(error, HasSubstr("a hook failed"));
}

TEST(ThreadsOfBackward, ALeafThatAFailedRunHadKeptApartIsFree) {
  const Tensor w = shared_leaf(2);
  backward(with_pause(w, [&] {
    on_a_thread([&] {
      const Tensor failing = with_pause(w, [] { fail(ErrorKind::usage, "a hook failed"); });
      EXPECT_THAT(error_of([&] { backward(failing); }), HasSubstr("a hook failed"));
    });
  }));
  EXPECT_EQ(w.grad().item(), 12);
  backward(w * 1.0);
  EXPECT_EQ(w.grad().item(), 13);
}

TEST(ThreadsOfBackward, ResultsOfOperatorsAreRefusedByName) {
  const Tensor w = shared_leaf(2);
  const Tensor part = exp(w);
  std::string error;
  const Tensor x = shared_leaf(3);
  const Tensor older = tanh(x);
  const Tensor root = older * part;
  older.node()->add_hook([&](const Tensor&) {
    on_a_thread([&] { error = error_of([&] { backward(older * 2.0); }); });
    return Tensor();
  });
  backward(root);
  EXPECT_THAT(error, AllOf(HasSubstr("tanh"), HasSubstr("another thread's backward()")));
  EXPECT_NEAR(w.grad().item(), std::tanh(3) * std::exp(2), 1e-12);
}

}  // namespace
}  // namespace whisker
