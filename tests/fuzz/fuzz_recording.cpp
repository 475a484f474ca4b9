// Any text as the JSON of a recording, or of its memory, beside the tensors of a real one, gives a
// recording that every view shows, or one checkpoint error.
#include "apps/study/builtin_networks.h"
#include "apps/study/memory_report.h"
#include "apps/study/roofline_report.h"
#include "core/io/safetensors_stream.h"
#include "core/trace/gradient_paths.h"
#include "core/trace/recording_file.h"
#include "core/trace/step_frames.h"
#include "core/trace/step_recorder.h"
#include "core/trace/tape_graph.h"
#include "core/trace/tape_listing.h"

#include <cstdint>
#include <cstdlib>

namespace whisker {
namespace {

// The seed tests/fuzz/corpus/recording/conv.json is the JSON in what `whisker study record conv
// device=reference` writes.
Recording recorded_step() {
  const BuiltinNetwork& conv = *find_builtin_network("conv");
  const Expression expression(std::string(conv.formula), conv.bindings,
                              {.tensor = {.device = reference_device}});
  StepRecorder recorder({.values = true});
  expression.run(recorder);
  return recorder.recording();
}

void show(const Recording& recording) {
  const StepFrames frames(recording);
  for (size_t i = 0; i < frames.count(); ++i) {
    frames.text(i);
    frames.text(i, {.all_values = true});
  }
  for (size_t i = 0; i < recording.entries.size() && i < 8; ++i) {
    if (recording.entries[i].kind == TapeKind::op) continue;
    GradientPaths::of(recording, i).text(recording, 100);
  }
  Recording measured = recording;
  if (!measured.ceilings) measured.ceilings = {.tflops = 1, .gb_per_s = 1, .overhead_ms = 1};
  const RooflineReport roofline = RooflineReport::of(measured, "");
  roofline.by_layer().text(100);
  roofline.json();
  roofline.svg();
  tape_listing(recording);
  tape_dot(recording);
  tape_mermaid(recording);
  tape_svg(recording);
}

}  // namespace
}  // namespace whisker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  static const Recording step = recorded_step();
  RecordingFile file = RecordingFile::of(step);
  for (const char* key : {"recording", MemoryReport::metadata_key}) {
    file.metadata[key] = std::string(reinterpret_cast<const char*>(data), size);
  }
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
  const auto try_to = [&](auto read) {
    try {
      read(SafetensorsFile::parse(bytes, "fuzz"));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::checkpoint) std::abort();
    }
  };
  try_to([](const SafetensorsFile& one) { show(read_recording(one)); });
  try_to([](const SafetensorsFile& one) {
    const MemoryReport memory = MemoryReport::find(one).value();
    memory.text(100);
    memory.json();
    memory.svg();
  });
  return 0;
}
