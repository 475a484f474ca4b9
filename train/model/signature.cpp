#include "train/model/signature.h"

#include "core/error.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "train/config/preprocess_config.h"

#include <algorithm>
#include <set>

namespace whisker {

InputDescription sequence_from_json(const std::string& text, const std::string& file) {
  const JsonValue json =
      JsonValue::parse(text, {.name = file + ": sequence", .kind = ErrorKind::checkpoint});
  const std::string& kind = json.at("kind").as_string();
  if (kind == "text") return TextInput::from_json(text, file);
  if (kind == "rows") return RowsInput::from_json(text, file);
  if (kind == "series") return SeriesInput::from_json(text, file);
  fail(ErrorKind::checkpoint, "{}: sequence: kind: expected text, rows or series, got '{}'", file,
       kind);
}

Task Signature::task() const {
  if (std::holds_alternative<SeriesInput>(input)) return Task::regression;
  const bool text = std::holds_alternative<TextInput>(input);
  return text && classes.empty() ? Task::language_model : Task::classification;
}

void Signature::set_positive_class(const std::string& name, ErrorKind kind,
                                   const std::string& key) {
  positive_class = name;
  if (name.empty() || std::ranges::find(classes, name) != classes.end()) return;
  if (task() != Task::classification) {
    fail(kind, "{}: expected none, as {} have no classes; got {}", key, examples(), excerpt(name));
  }
  fail(kind, "{}: expected one of {}, got {}", key, quoted_list(classes), excerpt(name));
}

const char* Signature::examples() const {
  constexpr const char* names[] = {"images", "texts", "rows", "windows"};
  return task() == Task::language_model ? "tokens" : names[input.index()];
}

int64_t Signature::usual_steps() const {
  constexpr int64_t steps = 64;
  if (const auto* text = std::get_if<TextInput>(&input)) {
    return text->max_length > 0 ? text->max_length : steps;
  }
  if (const auto* rows = std::get_if<RowsInput>(&input)) return rows->most_steps;
  if (const auto* series = std::get_if<SeriesInput>(&input)) return series->window;
  return steps;
}

BuildOptions Signature::build_options(int64_t rows, int64_t steps) const {
  BuildOptions options{.input = {}, .classes = static_cast<int64_t>(classes.size())};
  if (const auto* preprocess = std::get_if<Preprocess>(&input)) {
    const ImageSize size = preprocess->output();
    options.input = {rows, size.height, size.width, preprocess->channels};
    return options;
  }
  options.batch_axis = 1;
  if (const auto* text = std::get_if<TextInput>(&input)) {
    options.input = {steps, rows};
    options.vocabulary = text->vocabulary.size();
    options.every_step = task() == Task::language_model;
    if (options.every_step) options.classes = options.vocabulary;
  } else if (const auto* series = std::get_if<SeriesInput>(&input)) {
    options.input = {steps, rows, std::ssize(series->columns)};
  } else {
    options.input = {steps, rows, std::get<RowsInput>(input).features};
  }
  return options;
}

std::string Signature::input_json() const {
  return std::visit([](const auto& description) { return description.json(); }, input);
}

bool Signature::has_input(const std::string& json) const {
  if (input_json() == json) return true;
  Signature older = *this;
  if (auto* series = std::get_if<SeriesInput>(&older.input)) series->step_seconds = 0;
  if (older.input_json() == json) return true;
  if (auto* rows = std::get_if<RowsInput>(&older.input)) rows->names.clear();
  if (auto* series = std::get_if<SeriesInput>(&older.input)) series->names.clear();
  if (older.input_json() == json) return true;
  if (auto* text = std::get_if<TextInput>(&older.input)) text->header = Header::automatic;
  if (auto* rows = std::get_if<RowsInput>(&older.input)) {
    rows->header = Header::automatic;
    rows->class_like.reset();
  }
  if (auto* series = std::get_if<SeriesInput>(&older.input)) series->header = Header::automatic;
  return older.input_json() == json;
}

const char* Signature::input_key() const {
  return std::holds_alternative<Preprocess>(input) ? "preprocess" : "sequence";
}

Signature Signature::from_metadata(const std::map<std::string, std::string>& metadata,
                                   const std::string& file) {
  const auto find = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const auto refuse = [&](const char* key) {
    fail(ErrorKind::checkpoint,
         "{}: no '{}' in the file's metadata and no preset with its tensors, so it cannot be used "
         "on "
         "new data. Files made by 'whisker train' have it; others can start a training run with "
         "--init.",
         file, key);
  };
  Signature signature;
  if (find("classes").empty()) refuse("classes");
  signature.classes = classes_of(metadata, file);
  const std::string positive_class = find("positive_class");
  const std::string preprocess = find("preprocess"), sequence = find("sequence");
  if (!sequence.empty()) {
    signature.input = sequence_from_json(sequence, file);
  } else if (!preprocess.empty()) {
    signature.input = Preprocess::from_json(preprocess, file);
  } else if (const auto expected = preset_preprocess(find("arch"))) {
    signature.input = *expected;
  } else {
    refuse("preprocess");
  }
  signature.set_positive_class(positive_class, ErrorKind::checkpoint, file + ": positive_class");
  if (const std::string record = find(calibration_key); !record.empty()) {
    signature.calibration = CalibrationRecord::from_json(record, file);
  }
  return signature;
}

std::string class_names_json(const std::vector<std::string>& names) {
  JsonWriter json;
  json.begin_array();
  for (const std::string& name : names) json.value(name);
  return json.end_array().str();
}

std::vector<std::string> classes_of(const std::map<std::string, std::string>& metadata,
                                    const std::string& file) {
  std::vector<std::string> classes;
  std::set<std::string> known;
  const auto found = metadata.find("classes");
  if (found == metadata.end() || found->second.empty()) return classes;
  const JsonValue json =
      JsonValue::parse(found->second, {.name = file + ": classes", .kind = ErrorKind::checkpoint});
  // Two of ImageNet's classes are cranes and two are maillots: of images, a file that was made
  // elsewhere may name them so, also where config.json said its network. What is labelled by such a
  // name is refused; see class_number.
  const bool may_repeat = !metadata.contains("whisker_version") && !metadata.contains("sequence");
  for (const JsonValue& item : json.items()) {
    const std::string& name = item.as_string();
    if (!known.insert(name).second && !may_repeat) {
      fail(ErrorKind::checkpoint,
           "{}: classes: expected every name once, got {} again. Give each class a name of its own "
           "in the file's metadata, or use another file.",
           file, excerpt(name));
    }
    classes.push_back(name);
  }
  return classes;
}

}  // namespace whisker
