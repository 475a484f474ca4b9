// Inputs are drawn once in f32 and widened for the reference, so that both see the same numbers.
#include "apps/devices/device_check.h"

#include "core/autograd/autograd.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace whisker {
namespace {

using Values = std::vector<double>;
using Clock = std::chrono::steady_clock;

// The result, then the gradient of each input, for dy = 1, 2, 3, 1, 2, 3, ...
std::vector<Values> compute(const CheckedOperator& op, TensorOptions options) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : op.inputs) {
    const Tensor drawn = rand_normal(shape, 0, 1, 1, stream_of(op.name) + inputs.size(),
                                     {.device = reference_device});
    inputs.push_back(drawn.to(options.dtype).to(options.device).clone());
    inputs.back().set_requires_grad();
  }
  const Tensor y = op.apply(inputs);
  Values dy(static_cast<size_t>(y.count()));
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(1 + i % 3);
  backward(y, {.gradient = from_vector(dy, y.shape(), y.options())});
  std::vector<Values> all = {y.to_vector()};
  for (const Tensor& input : inputs) all.push_back(input.grad().to_vector());
  return all;
}

double largest_error(const Values& got, const Values& want) {
  double scale = 0, difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    scale = std::max(scale, std::fabs(want[i]));
    const double here = std::fabs(got[i] - want[i]);
    difference =
        std::isnan(here) ? std::numeric_limits<double>::infinity() : std::max(difference, here);
  }
  return scale > 0 ? difference / scale : difference;
}

/// While it lives, a GPU's products and convolutions do not round their operands to tf32.
class ExactGemms {
 public:
  explicit ExactGemms(Device device) : device_(device) {
    if (device.kind != DeviceKind::cuda) return;
    before_ = cuda_options(device);
    CudaOptions exact = before_;
    exact.tf32 = false;
    set_cuda_options(device, exact);
  }
  ~ExactGemms() {
    if (device_.kind == DeviceKind::cuda) set_cuda_options(device_, before_);
  }
  ExactGemms(const ExactGemms&) = delete;
  ExactGemms& operator=(const ExactGemms&) = delete;

 private:
  Device device_;
  CudaOptions before_;
};

}  // namespace

std::span<const CheckedOperator> checked_operators() {
  static const std::vector<CheckedOperator> all = {
      {"conv2d",
       {{2, 24, 24, 16}, {32, 3, 3, 16}, {32}},
       [](std::span<const Tensor> x) {
         return conv2d(x[0], x[1], x[2], {.padding = 1, .activation = {Activation::relu}});
       },
       2 * 24 * 24},
      {"linear",
       {{32, 256}, {64, 256}, {64}},
       [](std::span<const Tensor> x) { return linear(x[0], x[1], x[2]); },
       256},
      {"batch_norm",
       {{4, 12, 12, 32}, {32}, {32}},
       [](std::span<const Tensor> x) {
         const TensorOptions options = x[0].options();
         const BatchNormState state{zeros({32}, options), ones({32}, options), zeros({32}, options),
                                    zeros({32}, options)};
         return batch_norm(x[0], x[1], x[2], state, {.training = true});
       },
       4 * 12 * 12},
      {"softmax", {{64, 100}}, [](std::span<const Tensor> x) { return softmax(x[0]); }, 100},
  };
  return all;
}

DeviceCheck check_on(Device device, const CheckedOperator& op) {
  const auto want = compute(op, {.dtype = DType::f64, .device = reference_device});
  DeviceCheck check{.name = op.name,
                    .tolerance = 8 * 0x1p-24 * (1 + std::sqrt(static_cast<double>(op.terms))),
                    .milliseconds = std::numeric_limits<double>::infinity()};
  const ExactGemms exact(device);
  for (int run = 0; run < 5; ++run) {
    const Clock::time_point start = Clock::now();
    const auto got = compute(op, {.device = device});
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
    check.milliseconds = std::min(check.milliseconds, elapsed.count());
    for (size_t i = 0; i < want.size(); ++i) {
      check.error = std::max(check.error, largest_error(got[i], want[i]));
    }
  }
  return check;
}

}  // namespace whisker
