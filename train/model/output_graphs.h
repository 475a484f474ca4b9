// Forward passes as captured work: batches of one shape are copied into a fixed tensor, and the
// pass is replayed. Note [Captured steps] in train/loop/train_step.h has the reasons.
#pragma once

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace whisker {

class OutputGraphs {
 public:
  /// Computes f32 outputs of inputs on any device.
  using Forward = std::function<Tensor(const Tensor&)>;
  /// Records work as Backend::capture does.
  using Capture = std::function<std::unique_ptr<CapturedGraph>(const std::function<void()>&)>;

  /// Without `capture`, that of the device.
  explicit OutputGraphs(Device device, Capture capture = {});

  /// forward(inputs): the first batches of a shape eagerly, which chooses algorithms, then as a
  /// replay of what `forward` did once. It has to do the same each time, off the tape.
  Tensor run(const Tensor& inputs, const Forward& forward);
  /// Number of batches of one shape until all further ones are replays, where the device captures.
  static constexpr int64_t warm_up_batches = 4;
  int64_t replays() const { return replays_; }

 private:
  struct Captured {
    int64_t batches = 0;
    Shape outputs_shape;
    Tensor inputs, outputs;  // fixed, on the device
    std::unique_ptr<CapturedGraph> graph;
  };
  Tensor run_or_capture(const Tensor& inputs, const Forward& forward);
  void give_up();
  bool capture(Captured& shape, const Tensor& inputs, const Forward& forward);

  Device device_;
  Capture capture_;
  bool captures_ = true;
  std::map<std::string, Captured> shapes_;
  int64_t captured_ = 0;
  int64_t replays_ = 0;
};

}  // namespace whisker
