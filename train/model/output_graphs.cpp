// Memory that outlives a replay is taken before the capture.
#include "train/model/output_graphs.h"

#include "core/backend/device_copy.h"
#include "core/error.h"
#include "core/work_progress.h"

#include <utility>

namespace whisker {
namespace {

constexpr int64_t most_shapes = 4;  // captured: each keeps its memory

}  // namespace

OutputGraphs::OutputGraphs(Device device, Capture capture)
    : device_(device), capture_(std::move(capture)) {
  if (capture_) return;
  capture_ = [device](const std::function<void()>& work) {
    return backend_of(device).capture(work);
  };
}

// False on host devices, and where it fails: then the eager pass says why, if it does too.
bool OutputGraphs::capture(Captured& shape, const Tensor& inputs, const Forward& forward) try {
  {
    const MemoryScope scope(MemoryCategory::input);
    shape.inputs = empty(inputs.shape(), {.dtype = inputs.dtype(), .device = device_});
    shape.outputs = empty(shape.outputs_shape, {.device = device_});
    shape.outputs.raw();
  }
  enqueue_copy(inputs, shape.inputs);
  shape.graph = capture_([&shape, forward, this] {
    const Tensor outputs = forward(shape.inputs);
    backend_of(device_).copy(outputs.raw(), shape.outputs.raw(), outputs.bytes());
  });
  captured_ += shape.graph != nullptr;
  return shape.graph != nullptr;
} catch (const Error&) {
  return false;
}

void OutputGraphs::give_up() {
  shapes_.clear();
  captured_ = 0;
  captures_ = false;
}

Tensor OutputGraphs::run_or_capture(const Tensor& inputs, const Forward& forward) {
  Captured& shape = shapes_[fmt::format("{} {}", inputs.shape(), inputs.dtype())];
  if (shape.graph) {
    enqueue_copy(inputs, shape.inputs);
  } else if (++shape.batches < warm_up_batches || captured_ == most_shapes) {
    const Tensor outputs = forward(inputs);
    shape.outputs_shape = outputs.shape();
    return outputs;
  } else if (!capture(shape, inputs, forward)) {
    give_up();
    return forward(inputs);
  }
  shape.graph->replay();
  count_progress();
  ++replays_;
  return shape.outputs.clone();
}

Tensor OutputGraphs::run(const Tensor& inputs, const Forward& forward) {
  if (!captures_) return forward(inputs);
  try {
    return run_or_capture(inputs, forward);
  } catch (const OutOfMemory&) {
    if (captured_ == 0) throw;
  }
  give_up();  // an eager pass may have the graphs' memory
  return forward(inputs);
}

}  // namespace whisker
