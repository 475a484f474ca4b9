// Any text as the JSON of a recording, beside the tensors of a real one, gives a recording that
// every view shows, or one checkpoint error.
#include "core/autograd/autograd.h"
#include "core/io/safetensors_stream.h"
#include "core/ops/ops.h"
#include "core/trace/recording_file.h"
#include "core/trace/step_frames.h"
#include "core/trace/step_recorder.h"
#include "core/trace/tape_graph.h"
#include "core/trace/tape_listing.h"

#include <cstdint>
#include <cstdlib>

namespace whisker {
namespace {

// The seed tests/fuzz/corpus/recording/step.json is recording_json() of this.
Recording recorded_step() {
  constexpr TensorOptions f32{.dtype = DType::f32, .device = reference_device};
  const Tensor x = rand_normal({1, 4, 4, 1}, 0, 1, 3, 1, f32);
  const Tensor w = rand_normal({2, 3, 3, 1}, 0, 1, 3, 2, f32).set_requires_grad("w");
  StepRecorder recorder({.values = true});
  const Tensor y = max_pool2d(relu(conv2d(x, w, {}, {.padding = 1})), {});
  backward(
      mean(softmax(matmul(y.reshape({2, 4}), slice(y.reshape({4, 2}), 0, 1, 3).reshape({4, 1})))));
  return recorder.recording();
}

void show(const Recording& recording) {
  const StepFrames frames(recording);
  for (size_t i = 0; i < frames.count(); ++i) {
    frames.text(i);
    frames.text(i, {.all_values = true});
  }
  tape_listing(recording);
  tape_dot(recording);
  tape_svg(recording);
}

}  // namespace
}  // namespace whisker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  static const Recording step = recorded_step();
  RecordingFile file = RecordingFile::of(step);
  file.metadata["recording"] = std::string(reinterpret_cast<const char*>(data), size);
  std::vector<std::byte> bytes;
  try {
    write_safetensors(
        [&](std::span<const std::byte> part) {
          bytes.insert(bytes.end(), part.begin(), part.end());
        },
        "fuzz", file.metadata, std::move(file.entries));
  } catch (const Error&) {  // no UTF-8
    return 0;
  }
  try {
    show(read_recording(SafetensorsFile::parse(bytes, "fuzz")));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) std::abort();
  }
  return 0;
}
