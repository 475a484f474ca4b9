// A small convolutional net trained with operators alone: it learns 32 images by heart, every
// device takes the same ten steps, and those are PyTorch's (scripts/make_small_net_losses.py, which
// states the net, its data and its initial values).
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/ops/ops.h"
#include "core/tensor/storage.h"
#include "tests/support/devices.h"
#include "tests/support/update_state.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

template <class Formula>
Tensor filled(const Shape& shape, TensorOptions options, Formula formula) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = formula(static_cast<double>(i));
  return from_vector(values, shape, options);
}

class SmallNet {
 public:
  explicit SmallNet(TensorOptions o)
      : options_(o),
        groups_(from_vector({1, 0}, {1, 2}, {.dtype = DType::f64, .device = o.device})),
        memory_(o.device) {
    const auto sine = [](double scale, double pace, double start = 0) {
      return [=](double i) { return scale * std::sin(pace * i + start); };
    };
    images_ = filled({32, 8, 8, 3}, o, [](double i) { return std::sin(0.7 * i * i); });
    labels_ = filled({32}, {.dtype = DType::i64, .device = o.device},
                     [](double n) { return std::fmod(5 * n + n * n, 4); });
    add(filled({6, 3, 3, 3}, o, sine(0.2, 1.1, 0.3)));
    add(filled({6}, o, [](double i) { return 0.05 * std::cos(i); }));
    add(ones({6}, o));
    add(zeros({6}, o));
    add(filled({8, 3, 3, 6}, o, sine(0.15, 1.7)));
    add(filled({8}, o, sine(0.05, 1)));
    add(filled({4, 32}, o, sine(0.3, 2.3)));
    add(zeros({4}, o));
  }

  Tensor logits() const {  // (32, 4)
    const std::vector<Tensor>& p = parameters_;
    Tensor y = conv2d(images_, p[0], p[1], {.padding = 1});  // (32, 8, 8, 6)
    y = batch_norm(y, p[2], p[3], {}, {.training = true, .activation = {Activation::relu}});
    y = max_pool2d(y, {.kernel = 2});  // (32, 4, 4, 6)
    y = conv2d(y, p[4], p[5], {.padding = 1, .activation = {Activation::relu}});
    y = avg_pool2d(y, {.kernel = 2});  // (32, 2, 2, 8)
    return linear(y.reshape({32, 32}), p[6], p[7]);
  }

  /// One update; `step` brings the kind. Returns the loss before it.
  double train(OptimizerStep step, double rate) {
    const Tensor loss = cross_entropy(logits(), labels_);
    backward(loss);
    memory_.write(update_state(step, ++steps_, rate));
    step.state = memory_.state();
    step.groups = groups_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      step.value = parameters_[i].detach();
      step.gradient = parameters_[i].grad();
      step.moment1 = moments_[2 * i];
      step.moment2 = moments_[2 * i + 1];
      step.block_group =
          zeros({step.value.bytes() / 256 + 1}, {.dtype = DType::u8, .device = options_.device});
      backend_of(options_.device).training_step().optimizer_step(step);
      parameters_[i].zero_grad();
    }
    return loss.item();
  }

  double accuracy() const {
    const NoGrad off_tape;
    const Tensor right = equal(argmax(logits()), labels_);
    return mean(cast(right, DType::f32)).item();
  }

 private:
  void add(const Tensor& value) {
    parameters_.push_back(value.set_requires_grad());
    moments_.push_back(zeros(value.shape(), options_));
    moments_.push_back(zeros(value.shape(), options_));
  }

  TensorOptions options_;
  Tensor groups_;  // one, without decay
  StepMemory memory_;
  Tensor images_, labels_;
  std::vector<Tensor> parameters_, moments_;
  int64_t steps_ = 0;
};

const OptimizerStep sgd{.kind = OptimizerKind::sgd, .momentum = 0.9};

using SmallNetOn = OnDevice;
INSTANTIATE_TEST_SUITE_P(, SmallNetOn, ::testing::ValuesIn(every_device),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(SmallNetOn, Learns32ImagesByHeart) {
  SmallNet net({.dtype = DType::f32, .device = GetParam()});
  EXPECT_LT(net.accuracy(), 0.6);
  double loss = 0;
  for (int i = 0; i < 150; ++i) {
    loss = net.train({.kind = OptimizerKind::adam}, 0.02);
  }
  EXPECT_LT(loss, 0.02);
  EXPECT_EQ(net.accuracy(), 1);
}

TEST_P(SmallNetOn, TakesPyTorchsTenSteps) {
  constexpr double losses[] = {
      1.382873604632, 1.329996614001, 1.205616848118, 1.054476560341, 0.971987462499,
      1.090468818041, 0.736911460993, 0.592957665437, 0.608883546962, 0.557209657709,
  };
  for (const DType dtype : test_dtypes(GetParam())) {
    if (size_of(dtype) < 4) continue;  // parameters are never 16-bit
    SmallNet net({.dtype = dtype, .device = GetParam()});
    // Rounding errors of one step pass through the following ones.
    const double relative = dtype == DType::f64 ? 1e-11 : 2e-6;
    for (const double loss : losses) EXPECT_NEAR(net.train(sgd, 0.1), loss, relative * loss);
  }
}

TEST_P(SmallNetOn, LeavesNoStorageBehind) {
  const int64_t before = live_storages();
  {
    SmallNet net({.dtype = DType::f32, .device = GetParam()});
    net.train(sgd, 0.1);
    const int64_t held = live_storages();
    net.train(sgd, 0.1);
    EXPECT_EQ(live_storages(), held);
  }
  EXPECT_EQ(live_storages(), before);
}

}  // namespace
}  // namespace whisker::test
