// A network in training on fixed images, and what its steps leave behind, to be compared with
// what another way of computing them leaves.
#pragma once

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/ops/ops.h"
#include "core/parameters/parameters.h"
#include "layers/sequential.h"
#include "tests/support/devices.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {

using StepResults = std::vector<std::pair<std::string, std::vector<double>>>;

/// Distance relative to the length of `want`.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, size = 1e-12;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

/// Steps leave the weights as they are; batch_norms' running statistics change.
class StepTraining {
 public:
  /// `net` tells three classes apart. images (N,H,W,C); `frozen` as Sequential::freeze takes it.
  StepTraining(std::shared_ptr<Sequential> net, const Shape& images, Device device,
               std::optional<DType> compute, const std::vector<std::string>& frozen)
      : device_(device),
        net_(std::move(net)),
        arena_(freeze(frozen), device, 5, ArenaTypes{.compute = compute}),
        images_(images_of(images, 1)) {
    std::vector<double> labels;
    for (int64_t i = 0; i < images[0]; ++i) labels.push_back(static_cast<double>(i % 3));
    labels_ = from_vector(labels, {images[0]}, {.dtype = DType::i64}).to(device);
  }
  /// Other images where the present ones lie, for a captured step too.
  void show_batch(uint64_t number) {
    const Tensor images = images_of(images_.shape(), number);
    backend_of(device_).copy(images.raw(), images_.raw(), images.bytes());
  }
  void step() {
    arena_.zero_grad();
    backward(cross_entropy((*net_)(images_, {.training = true}).to(DType::f32), labels_));
    arena_.commit_buffers();
  }
  void evaluate() { (*net_)(images_, {}); }
  /// Gradients and running statistics by name, and the logits of an evaluation.
  StepResults results() const {
    StepResults all;
    for (const auto& parameter : arena_.parameters()) {
      if (!parameter->is_buffer() && !parameter->trainable()) continue;
      const Tensor value = parameter->is_buffer() ? parameter->value() : parameter->value().grad();
      all.emplace_back(parameter->name(), value.to_vector());
    }
    const NoGrad evaluation;
    all.emplace_back("logits", (*net_)(images_, {}).to_vector());
    return all;
  }

 private:
  Tensor images_of(const Shape& shape, uint64_t batch) const {
    return rand_normal(shape, 0, 1, 1, batch).to(arena_.compute_dtype()).to(device_);
  }
  ParameterList freeze(const std::vector<std::string>& patterns) {
    if (!patterns.empty()) net_->freeze(patterns);
    return net_->parameters();
  }
  Device device_;
  std::shared_ptr<Sequential> net_;
  ParameterArena arena_;
  Tensor images_, labels_;
};

inline StepResults after_two_steps(StepTraining& training) {
  training.step();
  training.step();
  return training.results();
}

/// Two steps of network(true), fused, are as near to the reference in f32 as those of
/// network(false): in 16 bits rounding turns some of relu's gradients on and off, and makes
/// elements of a pooling window equal, in both.
template <class Network>
void expect_trains_as_unfused(const Network& network, const Shape& images,
                              const std::vector<std::vector<std::string>>& freezings) {
  for (const auto& frozen : freezings) {
    const auto results = [&](Device device, std::optional<DType> compute, bool fuse) {
      StepTraining training(network(fuse), images, device, compute, frozen);
      return after_two_steps(training);
    };
    const StepResults expected = results(reference_device, {}, false);
    for (const Device device : test_devices()) {
      for (const DType dtype : test_dtypes(device)) {
        if (dtype == DType::f64) continue;
        SCOPED_TRACE(fmt::format("{} {}, {} frozen", device.str(), name_of(dtype), frozen.size()));
        std::optional<DType> compute;
        if (dtype != DType::f32) compute = dtype;
        const StepResults fused = results(device, compute, true);
        const StepResults unfused = results(device, compute, false);
        ASSERT_EQ(fused.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(fused[i].first, expected[i].first);
          const double error = relative_error(unfused[i].second, expected[i].second);
          EXPECT_LT(relative_error(fused[i].second, expected[i].second),
                    2 * error + (dtype == DType::f32 ? 1e-5 : 0.02))
              << fused[i].first;
          if (dtype == DType::f32) {
            EXPECT_LT(error, 1e-4) << fused[i].first;
          }
        }
      }
    }
  }
}

}  // namespace whisker::test
