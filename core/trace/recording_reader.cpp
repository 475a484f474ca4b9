// Reads a recording: every index, shape and count is checked before anything uses it.
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/tensor/convert.h"
#include "core/tensor/dtype.h"
#include "core/trace/recording_file.h"

#include <cstring>

#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr int64_t most_entries = 65'536, most_parts = 1'024;
constexpr TapeKind all_kinds[] = {TapeKind::op, TapeKind::leaf, TapeKind::constant};
constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                DType::i64, DType::i32, DType::u8,  DType::boolean};

class RecordingReader {
 public:
  explicit RecordingReader(const SafetensorsFile& file) : file_(file) {}

  Recording read() {
    check_is_recording(file_);
    if (text("version") != "1" && text("version") != "2") {  // 1 had no examples
      refuse(
          "expected version 1 or 2 of the format, got {}. Record the step again with this program",
          excerpt(text("version")));
    }
    const JsonValue json = JsonValue::parse(
        text("recording"),
        {.name = file_.name(), .max_values = 8'000'000, .kind = ErrorKind::checkpoint});
    Recording recording{.title = printable(json.at("network").as_string()), .entries = {}};
    recording.beside = static_cast<int>(json.at("beside").as_int(0, 1'000'000'000));
    recording.beside_ms = json.at("beside_ms").as_double(0);
    if (const JsonValue* const ceilings = json.find("ceilings")) {
      const auto number = [&](const char* key) { return ceilings->at(key).as_double(1e-9, 1e9); };
      recording.ceilings = {.tflops = number("tflops"),
                            .gb_per_s = number("gb_per_s"),
                            .overhead_ms = number("overhead_ms")};
    }
    const JsonValue::Items& entries = json.at("entries").items();
    if (entries.empty() || static_cast<int64_t>(entries.size()) > most_entries) {
      refuse("expected 1 to {} entries, got {}", most_entries, entries.size());
    }
    int operators = 0;
    for (const JsonValue& one : entries) {
      TapeEntry entry = read_entry(one, recording.entries);
      if (entry.kind == TapeKind::op) entry.number = ++operators;
      recording.entries.push_back(std::move(entry));
    }
    if (read_ != file_.tensors().size()) {
      refuse("expected the {} tensors that the entries name, got {}", read_,
             file_.tensors().size());
    }
    return recording;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::checkpoint, "{}: {}.", file_.name(),
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::string text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? std::string() : found->second;
  }

  const JsonValue::Items& list(const JsonValue& json, std::string_view key,
                               int64_t least = 0) const {
    const JsonValue::Items& items = json.at(key).items();
    const auto count = static_cast<int64_t>(items.size());
    if (count < least || count > most_parts) {
      refuse("{}: expected {} to {} items, got {}", key, least, most_parts, count);
    }
    return items;
  }

  template <class Read>
  auto choice(const std::string& name, const auto& choices, Read name_of_choice) const {
    for (const auto& one : choices) {
      if (name == name_of_choice(one)) return one;
    }
    refuse("{} is no kind of entry or element", excerpt(name));
  }

  Shape read_shape(const JsonValue& json) const {
    const JsonValue::Items& items = list(json, "shape");
    if (items.size() > size_t{Shape::max_rank}) refuse("a shape has {} axes", items.size());
    std::vector<int64_t> extents;
    for (const JsonValue& one : items) extents.push_back(one.as_int(0));
    try {
      return Shape(std::span<const int64_t>(extents));
    } catch (const Error& error) {
      refuse("{}", error.what());
    }
  }

  DType read_dtype(const JsonValue& json) const {
    return choice(json.at("dtype").as_string(), all_dtypes, [](DType one) { return name_of(one); });
  }

  TapeEntry read_entry(const JsonValue& json, const std::vector<TapeEntry>& before) {
    const std::string place = fmt::format("{}", before.size());
    TapeEntry entry{
        .kind = choice(json.at("kind").as_string(), all_kinds,
                       [](TapeKind one) { return tape_kind_names[static_cast<size_t>(one)]; }),
        .name = printable(json.at("name").as_string()),
        .layer = printable(json.at("layer").as_string()),
        .attributes = printable(json.at("attributes").as_string())};
    if (const JsonValue* const one = json.find("example")) {
      entry.example = printable(one->as_string());
    }
    read_inputs(json, entry, before);
    for (const JsonValue& one : list(json, "outputs", 1)) {
      TapeOutput output{.shape = read_shape(one), .dtype = read_dtype(one)};
      const std::string index = fmt::format("{}", entry.outputs.size());
      output.value = values(fmt::format("{}.value.{}", place, index), output.shape, output.dtype);
      output.gradient =
          values(fmt::format("{}.gradient.{}", place, index), output.shape, output.dtype);
      entry.outputs.push_back(std::move(output));
    }
    entry.recorded = json.at("recorded").as_bool();
    for (const JsonValue& one : list(json, "saved")) {
      TapeSaved saved{.what = printable(one.at("what").as_string()),
                      .shape = read_shape(one),
                      .dtype = read_dtype(one)};
      saved.bytes = one.at("bytes").as_int(0, int64_t{1} << 50);
      kept_bytes_ += saved.bytes;
      if (kept_bytes_ > int64_t{1} << 60) refuse("more than 2^60 bytes are kept for backward");
      saved.value =
          values(fmt::format("{}.saved.{}", place, entry.saved.size()), saved.shape, saved.dtype);
      entry.saved.push_back(std::move(saved));
    }
    entry.forward_ms = json.at("forward_ms").as_double(0);
    entry.backward_step = static_cast<int>(json.at("backward_step").as_int(0, 1'000'000'000));
    entry.backward_ms = json.at("backward_ms").as_double(0);
    read_given(json, entry, before, place);
    return entry;
  }

  void read_inputs(const JsonValue& json, TapeEntry& entry,
                   const std::vector<TapeEntry>& before) const {
    const JsonValue::Items& inputs = list(json, "inputs");
    const JsonValue::Items& outputs = list(json, "input_outputs");
    const JsonValue::Items& positions = list(json, "input_positions");
    if (inputs.size() != outputs.size() || inputs.size() != positions.size() ||
        (!inputs.empty() && before.empty())) {
      refuse("entry {}: expected as many inputs as input_outputs and input_positions",
             before.size());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      TapeInput input;
      input.entry =
          static_cast<size_t>(inputs[i].as_int(0, static_cast<int64_t>(before.size()) - 1));
      const auto most = static_cast<int64_t>(before[input.entry].outputs.size()) - 1;
      input.output = static_cast<size_t>(outputs[i].as_int(0, most));
      input.position = static_cast<size_t>(positions[i].as_int(0, most_parts));
      entry.inputs.push_back(input);
    }
    if (!json.find("input_examples")) return;
    const JsonValue::Items& examples = list(json, "input_examples");
    if (examples.size() != inputs.size()) {
      refuse("entry {}: expected as many input_examples as inputs", before.size());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      entry.inputs[i].example = printable(examples[i].as_string());
    }
  }

  void read_given(const JsonValue& json, TapeEntry& entry, const std::vector<TapeEntry>& before,
                  const std::string& place) {
    for (const JsonValue& one : list(json, "given")) {
      const auto count = static_cast<int64_t>(entry.inputs.size());
      if (count == 0) refuse("entry {} gives gradients, but has no inputs", place);
      GivenGradient given{.input = static_cast<size_t>(one.at("input").as_int(0, count - 1)),
                          .first = one.at("first").as_bool()};
      const TapeInput& input = entry.inputs[given.input];
      const TapeOutput& target = before[input.entry].outputs[input.output];
      given.sum =
          values(fmt::format("{}.given.{}", place, entry.given.size()), target.shape, target.dtype);
      entry.given.push_back(std::move(given));
    }
  }

  // A stored tensor, which must be of this shape and dtype; nullptr when it is not there.
  const SafetensorsTensor* stored(const std::string& name, std::span<const int64_t> shape,
                                  DType dtype) {
    const SafetensorsTensor* const tensor = file_.find(name);
    if (!tensor) return nullptr;
    if (tensor->dtype != dtype ||
        !std::equal(tensor->shape.begin(), tensor->shape.end(), shape.begin(), shape.end(),
                    [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); })) {
      refuse("tensor {}: expected {} ({}), got {} ({})", name, dtype, fmt::join(shape, ","),
             tensor->dtype, fmt::join(tensor->shape, ","));
    }
    ++read_;
    return tensor;
  }

  RecordedValues values(const std::string& name, const Shape& shape, DType dtype) {
    RecordedValues result;
    if (const SafetensorsTensor* const all = stored(name, shape.extents(), dtype)) {
      if (shape.count() > most_recorded_values) {
        refuse("tensor {}: expected statistics above {} elements", name, most_recorded_values);
      }
      visit(dtype, [&]<class T>() {
        for (size_t at = 0; at < all->bytes.size(); at += sizeof(T)) {
          std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> one{};
          std::memcpy(&one, all->bytes.data() + at, sizeof(T));
          result.all.push_back(convert<double>(one));
        }
      });
      return result;
    }
    constexpr int64_t numbers[] = {7};
    const SafetensorsTensor* const found =
        stored(fmt::format("{}.statistics", name), numbers, DType::f64);
    if (!found) return result;
    TensorStatistics s;
    const int64_t bins[] = {static_cast<int64_t>(s.histogram.size())};
    const SafetensorsTensor* const histogram =
        stored(fmt::format("{}.histogram", name), bins, DType::i64);
    if (!histogram) refuse("tensor {}.histogram is missing", name);
    std::array<double, 7> all{};
    std::memcpy(all.data(), found->bytes.data(), sizeof(all));
    std::memcpy(s.histogram.data(), histogram->bytes.data(), sizeof(s.histogram));
    const auto count = static_cast<double>(shape.count());
    if (!(all[5] >= 0 && all[5] <= count && all[6] >= 0 && all[6] <= count)) {
      refuse("tensor {}.statistics: expected counts up to {}", name, shape.count());
    }
    s.mean = all[0];
    s.deviation = all[1];
    s.minimum = all[2];
    s.maximum = all[3];
    s.norm = all[4];
    s.zeros = static_cast<int64_t>(all[5]);
    s.not_finite = static_cast<int64_t>(all[6]);
    result.statistics = s;
    return result;
  }

  const SafetensorsFile& file_;
  size_t read_ = 0;  // tensors
  int64_t kept_bytes_ = 0;
};

}  // namespace

void check_is_recording(const SafetensorsFile& file) {
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != "whisker recording") {
    fail(ErrorKind::checkpoint,
         "{}: expected a recording of whisker study record, got another safetensors file.",
         file.name());
  }
}

Recording read_recording(const SafetensorsFile& file) {
  return RecordingReader(file).read();
}

}  // namespace whisker
