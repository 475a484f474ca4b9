// The writer. A tensor of entry E is called "E.value.K" and "E.gradient.K" (of output K),
// "E.saved.K" or "E.given.K"; large ones are two: "....statistics" and "....histogram".
#include "core/trace/recording_file.h"

#include "core/io/json.h"
#include "core/tensor/convert.h"
#include "core/tensor/dtype.h"

#include <algorithm>
#include <memory>

namespace whisker {
namespace {

std::vector<uint64_t> extents_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

// `values` as elements of `dtype`, made when they are written.
std::function<std::span<const std::byte>()> bytes_of(
    std::span<const double> values, DType dtype, std::shared_ptr<std::vector<std::byte>> buffer) {
  return [=]() -> std::span<const std::byte> {
    buffer->resize(values.size() * size_of(dtype));
    visit(dtype, [&]<class T>() {
      T* const to = reinterpret_cast<T*>(buffer->data());
      for (size_t i = 0; i < values.size(); ++i) to[i] = convert<T>(values[i]);
    });
    return *buffer;
  };
}

class EntryList {
 public:
  explicit EntryList(std::vector<SafetensorsEntry>& entries) : entries_(entries) {}

  void add(const std::string& name, const Shape& shape, DType dtype, const RecordedValues& values) {
    if (!values.all.empty()) {
      entries_.push_back({name, dtype, extents_of(shape), bytes_of(values.all, dtype, buffer_)});
    }
    if (!values.statistics) return;
    const TensorStatistics& s = *values.statistics;
    const auto numbers = std::make_shared<std::array<double, 7>>(
        std::array<double, 7>{s.mean, s.deviation, s.minimum, s.maximum, s.norm,
                              static_cast<double>(s.zeros), static_cast<double>(s.not_finite)});
    entries_.push_back(
        {fmt::format("{}.statistics", name), DType::f64, {numbers->size()}, [numbers] {
           return std::as_bytes(std::span(*numbers));
         }});
    entries_.push_back({fmt::format("{}.histogram", name), DType::i64, {s.histogram.size()}, [&s] {
                          return std::as_bytes(std::span(s.histogram));
                        }});
  }

 private:
  std::vector<SafetensorsEntry>& entries_;
  std::shared_ptr<std::vector<std::byte>> buffer_ = std::make_shared<std::vector<std::byte>>();
};

}  // namespace

std::string recording_json(const Recording& recording) {
  JsonWriter json;
  json.begin_object().field("schema_version", 2).field("network", recording.title);
  json.field("beside", recording.beside).field("beside_ms", recording.beside_ms);
  if (const std::optional<Ceilings>& ceilings = recording.ceilings) {
    json.key("ceilings").begin_object().field("tflops", ceilings->tflops);
    json.field("gb_per_s", ceilings->gb_per_s).field("overhead_ms", ceilings->overhead_ms);
    json.end_object();
  }
  json.list("entries", recording.entries, [&](const TapeEntry& entry) {
    const auto numbers = [&](std::string_view key, size_t TapeInput::*member) {
      json.list(key, entry.inputs, [&](const TapeInput& input) { json.value(input.*member); });
    };
    const auto shape_and_dtype = [&](const auto& tensor) -> JsonWriter& {
      json.begin_object().list("shape", tensor.shape);
      return json.field("dtype", name_of(tensor.dtype));
    };
    json.begin_object().field("kind", tape_kind_names[static_cast<size_t>(entry.kind)]);
    json.field("name", entry.name).field("layer", entry.layer);
    json.field("attributes", entry.attributes);
    numbers("inputs", &TapeInput::entry);
    numbers("input_outputs", &TapeInput::output);
    numbers("input_positions", &TapeInput::position);
    if (!entry.example.empty()) json.field("example", entry.example);
    const auto has_example = [](const TapeInput& input) { return !input.example.empty(); };
    if (std::ranges::any_of(entry.inputs, has_example)) {
      json.list("input_examples", entry.inputs,
                [&](const TapeInput& input) { json.value(input.example); });
    }
    json.list("outputs", entry.outputs,
              [&](const TapeOutput& output) { shape_and_dtype(output).end_object(); });
    json.field("recorded", entry.recorded).list("saved", entry.saved, [&](const TapeSaved& saved) {
      shape_and_dtype(saved).field("what", saved.what).field("bytes", saved.bytes).end_object();
    });
    json.list("given", entry.given, [&](const GivenGradient& given) {
      json.begin_object().field("input", given.input).field("first", given.first).end_object();
    });
    json.field("number", entry.number).field("forward_ms", entry.forward_ms);
    json.field("backward_step", entry.backward_step).field("backward_ms", entry.backward_ms);
    json.end_object();
  });
  return json.end_object().str();
}

RecordingFile RecordingFile::of(const Recording& recording) {
  RecordingFile file{.metadata = {{"format", "whisker recording"},
                                  {"version", "2"},
                                  {"recording", recording_json(recording)}},
                     .entries = {}};
  EntryList list(file.entries);
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    for (size_t k = 0; k < entry.outputs.size(); ++k) {
      const TapeOutput& output = entry.outputs[k];
      list.add(fmt::format("{}.value.{}", i, k), output.shape, output.dtype, output.value);
      list.add(fmt::format("{}.gradient.{}", i, k), output.shape, output.dtype, output.gradient);
    }
    for (size_t k = 0; k < entry.saved.size(); ++k) {
      const TapeSaved& saved = entry.saved[k];
      list.add(fmt::format("{}.saved.{}", i, k), saved.shape, saved.dtype, saved.value);
    }
    for (size_t k = 0; k < entry.given.size(); ++k) {
      const TapeInput& input = entry.inputs[entry.given[k].input];
      const TapeOutput& target = recording.entries[input.entry].outputs[input.output];
      list.add(fmt::format("{}.given.{}", i, k), target.shape, target.dtype, entry.given[k].sum);
    }
  }
  return file;
}

}  // namespace whisker
