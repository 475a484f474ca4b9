// Memory that outlives a replay is taken before the capture.
#include "train/model/output_graphs.h"

#include <utility>

namespace whisker {
namespace {

constexpr int64_t most_shapes = 4;  // captured: each keeps its memory

// Copies in order with the device's operators.
void load(const Tensor& source, const Tensor& target) {
  Backend& backend = backend_of(target.device());
  if (source.device() == target.device()) {
    backend.copy(source.raw(), target.raw(), target.bytes());
  } else {
    backend.enqueue_upload(source.raw(), target.raw(), target.bytes());
  }
}

}  // namespace

OutputGraphs::OutputGraphs(Device device, Capture capture)
    : device_(device), capture_(std::move(capture)) {
  if (capture_) return;
  capture_ = [device](const std::function<void()>& work) {
    return backend_of(device).capture(work);
  };
}

// False where it cannot be done: on host devices, and without memory for it.
bool OutputGraphs::capture(Captured& shape, const Tensor& inputs, const Forward& forward) try {
  {
    const MemoryScope scope(MemoryCategory::input);
    shape.inputs = empty(inputs.shape(), {.dtype = inputs.dtype(), .device = device_});
    shape.outputs = empty(shape.outputs_shape, {.device = device_});
  }
  load(inputs, shape.inputs);
  shape.graph = capture_([&shape, forward, this] {
    const Tensor outputs = forward(shape.inputs);
    backend_of(device_).copy(outputs.raw(), shape.outputs.raw(), outputs.bytes());
  });
  captured_ += shape.graph != nullptr;
  return shape.graph != nullptr;
} catch (const OutOfMemory&) {
  return false;
}

// The last, smaller batch needs memory beside the graphs': where there is none, they go.
Tensor OutputGraphs::run_eagerly(const Tensor& inputs, const Forward& forward) {
  try {
    return forward(inputs);
  } catch (const OutOfMemory&) {
    if (captured_ == 0) throw;
  }
  shapes_.clear();
  captured_ = 0;
  captures_ = false;
  return forward(inputs);
}

Tensor OutputGraphs::run(const Tensor& inputs, const Forward& forward) {
  if (!captures_) return forward(inputs);
  Captured& shape = shapes_[fmt::format("{} {}", inputs.shape(), inputs.dtype())];
  if (!shape.graph) {
    if (++shape.batches < warm_up_batches || captured_ == most_shapes) {
      const Tensor outputs = run_eagerly(inputs, forward);
      if (captures_) shape.outputs_shape = outputs.shape();
      return outputs;
    }
    captures_ = capture(shape, inputs, forward);
    if (!captures_) {
      shape = {};
      return forward(inputs);
    }
  } else {
    load(inputs, shape.inputs);
  }
  shape.graph->replay();
  ++replays_;
  return shape.outputs.clone();
}

}  // namespace whisker
