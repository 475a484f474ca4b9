#include "train/report/run_record.h"

#include "core/error.h"
#include "core/io/duration.h"
#include "core/io/file.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "train/loop/events.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();
constexpr size_t most_bytes = size_t{1} << 30;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What of a file cannot be read is said in the report, and the rest is shown.
void read_part(RunRecord& run, const fs::path& path, const std::function<void()>& read) {
  if (!is_there(path)) return;
  try {
    read();
  } catch (const Error& error) {
    run.problems.push_back(
        without_folders(fmt::format("{}: {}", path.filename().string(), error.what())));
  }
}

LoggedValues values_of(const JsonValue& line) {
  LoggedValues values;
  for (const auto& [name, value] : line.members()) {
    if (value.is_number()) values[name] = value.as_double();
    if (value.is_null()) values[name] = not_known;
  }
  return values;
}

void add_epoch(RunRecord& run, const JsonValue& line) {
  LoggedEpoch epoch{.epoch = 0, .values = values_of(line)};
  epoch.epoch = logged_value(epoch.values, "epoch");
  const JsonValue* best = line.find("best");
  epoch.best = best && best->as_bool();
  if (const JsonValue* time = line.find("time")) {
    epoch.has_times = true;
    for (size_t i = 0; i < stage_names.size(); ++i) {
      const JsonValue* stage = time->find(stage_names[i]);
      if (stage && stage->is_number()) epoch.times[i] = stage->as_double();
    }
  }
  run.epochs.push_back(std::move(epoch));
}

// A last line without its end is still being written.
void read_metrics(RunRecord& run, const std::string& text) {
  double steps_per_epoch = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const JsonValue json = JsonValue::parse(line, {.name = "metrics.jsonl"});
    const std::string& kind = json.at("kind").as_string();
    if (kind == "test") run.test = values_of(json);
    if (kind == "step") {
      LoggedValues values = values_of(json);
      const double step = logged_value(values, "step");
      run.seconds = std::max(run.seconds, logged_value(values, "seconds"));
      run.steps.emplace_back(step, std::move(values));
    }
    if (kind != "epoch" && kind != "validation") continue;
    add_epoch(run, json);
    const LoggedEpoch& epoch = run.epochs.back();
    run.seconds = std::max(run.seconds, logged_value(epoch.values, "seconds"));
    if (kind == "epoch") steps_per_epoch = logged_value(epoch.values, "step") / epoch.epoch;
  }
  // Before the first epoch has ended, its length is not known: the last step is shown as its end.
  if (!(steps_per_epoch > 0) && !run.steps.empty()) steps_per_epoch = run.steps.back().first;
  for (auto& [at, values] : run.steps) at /= steps_per_epoch;
  for (LoggedEpoch& one : run.epochs) {
    const double step = logged_value(one.values, "step");
    if (one.has_times || !std::isfinite(step) || !(steps_per_epoch > 0)) continue;
    one.epoch = step / steps_per_epoch;
  }
}

void read_state(RunRecord& run, const std::string& text) {
  const JsonValue state = JsonValue::parse(text, {.name = "state.json"});
  if (const JsonValue* seconds = state.find("seconds"); seconds && seconds->is_number()) {
    run.seconds = std::max(run.seconds, seconds->as_double());
  }
  const JsonValue* environment = state.find("environment");
  if (!environment) return;
  for (const auto& [name, value] : environment->members()) {
    run.environment.emplace_back(name, without_folders(value.as_string()));
  }
}

void read_confusion(const JsonValue& metrics, ClassCounts& classes) {
  const JsonValue* per_class = metrics.find("per_class");
  const JsonValue* confusion = metrics.find("confusion");
  if (!per_class || !confusion) return;
  ClassCounts read;
  for (const JsonValue& one : per_class->items()) {
    read.classes.push_back(one.at("name").as_string());
  }
  const int64_t most = int64_t{1} << 53;
  for (const JsonValue& row : confusion->items()) {
    for (const JsonValue& count : row.items()) read.confusion.push_back(count.as_int(0, most));
  }
  if (read.confusion.size() != read.classes.size() * read.classes.size()) {
    fail(ErrorKind::checkpoint, "metrics: {} classes, {} counts", read.classes.size(),
         read.confusion.size());
  }
  classes = std::move(read);
}

void read_best(RunRecord& run, const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  BestRecord best;
  const auto epoch = file.metadata().find("epoch");
  if (epoch != file.metadata().end()) {
    const std::string& digits = epoch->second;
    std::from_chars(digits.data(), digits.data() + digits.size(), best.epoch);
  }
  // A kill between the two files leaves them so, or a disk that had no space for the second one.
  if (run.validation && best.epoch > 0 && run.validation->epoch != best.epoch) {
    run.problems.push_back(
        fmt::format("validation.safetensors: it is of epoch {}, best.safetensors of epoch {}",
                    run.validation->epoch, best.epoch));
    run.validation.reset();
    run.classes = {};
  }
  for (const SafetensorsTensor& one : file.tensors()) {
    const bool statistics = one.name.ends_with("running_mean") ||
                            one.name.ends_with("running_var") ||
                            one.name.ends_with("num_batches_tracked");
    if (!statistics) best.parameters += one.bytes.size() / size_of(one.dtype);
  }
  const auto found = file.metadata().find("metrics");
  if (found != file.metadata().end()) {
    std::string_view text = found->second;
    // The counts of a thousand classes take longer to read than all else; the examples have them.
    std::string figures;
    if (const size_t classes = text.find(",\"per_class\":");
        run.validation && run.validation->epoch == best.epoch && classes != text.npos) {
      const size_t precision = text.rfind(",\"precision\":\"");
      figures = std::string(text.substr(0, classes)) +
                (precision != text.npos && precision > classes ? std::string(text.substr(precision))
                                                               : "}");
      text = figures;
    }
    const JsonValue metrics =
        JsonValue::parse(text, {.name = "metrics", .max_values = 100'000'000});
    best.values = values_of(metrics);
    if (const JsonValue* precision = metrics.find("precision")) {
      best.precision = precision->as_string();
    }
    add_naive_errors(metrics, best.values);
    for (const std::string_view of : {"images", "texts", "rows", "windows", "tokens"}) {
      if (const JsonValue* count = metrics.find(of); count && count->is_number()) {
        best.of = of;
        best.examples = count->as_int();
      }
    }
    if (run.classes.empty()) read_confusion(metrics, run.classes);
  }
  run.best = std::move(best);
}

// TensorBoard's files sort by time. A record begins with 12 bytes of framing, an event with its
// wall_time: field 1, a double.
std::string first_event_of(const fs::path& tensorboard) {
  std::error_code error;
  fs::path first;
  for (const auto& entry : fs::directory_iterator(tensorboard, error)) {
    const bool is_events = entry.path().filename().string().starts_with("events.out.tfevents.");
    if (is_events && (first.empty() || entry.path() < first)) first = entry.path();
  }
  if (first.empty() || !fs::is_regular_file(first, error)) return "";
  std::array<char, 21> bytes{};
  std::ifstream(first, std::ios::binary).read(bytes.data(), bytes.size());
  constexpr char double_of_field_1 = 9;
  double seconds = 0;
  std::memcpy(&seconds, bytes.data() + 13, sizeof seconds);
  const bool likely = bytes[12] == double_of_field_1 && seconds > 0 && seconds < 1e11;
  return likely ? utc_text(static_cast<std::time_t>(seconds)) : "";
}

void count_classes(RunRecord& run) {
  const ValidationExamples& all = *run.validation;
  const size_t n = all.classes.size();
  if (all.is_forecast() || n == 0) return;
  constexpr size_t most_counted = 10'000;  // 800 MB
  if (n > most_counted) {
    fail(ErrorKind::checkpoint, "pairs of {} classes are not counted, those of {} at most", n,
         most_counted);
  }
  run.classes = {.classes = all.classes, .confusion = std::vector<int64_t>(n * n)};
  for (int64_t i = 0; i < all.size(); ++i) {
    const auto label = static_cast<size_t>(all.labels[static_cast<size_t>(i)]);
    ++run.classes.confusion[label * n + static_cast<size_t>(all.predicted(i))];
  }
}

}  // namespace

void add_naive_errors(const JsonValue& metrics, LoggedValues& values) {
  const JsonValue* naive = metrics.find("naive");
  for (const std::string_view of : {"mae", "rmse"}) {
    const JsonValue* error = naive ? naive->find(of) : nullptr;
    if (error && error->is_number()) values[fmt::format("naive_{}", of)] = error->as_double();
  }
}

double logged_value(const LoggedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? not_known : found->second;
}

std::string RunRecord::setting(std::string_view path, std::string_view otherwise) const {
  const YamlNode* found = config.find_path(path);
  return std::string(found && found->is_scalar() ? found->text() : otherwise);
}

std::string RunRecord::metric() const {
  const std::string chosen = setting("train.metric", "auto");
  if (chosen != "auto") return chosen;
  const std::string kind = setting("data.kind", "images");
  return kind == "series" ? "mae" : kind == "language" ? "loss" : "accuracy";
}

double RunRecord::figure(std::string_view figure_name) const {
  return best ? logged_value(best->values, figure_name) : not_known;
}

RunRecord read_run_record(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  if (error || !fs::is_directory(whole)) {
    fail(ErrorKind::usage, "{}: expected the folder of a run, got {}.", printable(folder.string()),
         is_there(folder) ? "a file" : "nothing there");
  }
  if (!is_there(whole / "config.yaml")) {
    fail(ErrorKind::usage,
         "{}: expected the folder of a run, got one without config.yaml. whisker train makes them.",
         printable(folder.string()));
  }
  RunRecord run;
  run.name = whole.filename().string();
  const auto text_of = [&](const fs::path& file) {
    return read_file(whole / file, most_bytes, ErrorKind::checkpoint);
  };
  const auto part = [&](const fs::path& file, const std::function<void()>& read) {
    read_part(run, whole / file, read);
  };
  part("config.yaml", [&] { run.config = YamlNode::parse(text_of("config.yaml"), "config.yaml"); });
  part("log.txt", [&] {
    const std::string log = text_of("log.txt");
    run.told = told_of_run(log);
    run.ended = how_it_ended(log);
    run.dates = dates_of_run(log);
  });
  run.dates.first_event = first_event_of(whole / "tensorboard");
  part("metrics.jsonl", [&] { read_metrics(run, text_of("metrics.jsonl")); });
  part("last/state.json", [&] { read_state(run, text_of("last/state.json")); });
  part("validation.safetensors", [&] {
    ValidationExamples read = read_validation_examples(whole / "validation.safetensors");
    const std::string kind = run.setting("data.kind", "images");
    if (read.is_forecast() != (kind == "series")) {
      fail(ErrorKind::checkpoint, "expected examples of data.kind {}, got {}", kind, read.of);
    }
    run.validation = std::move(read);
    count_classes(run);
  });
  part("examples.safetensors",
       [&] { run.examples = read_report_examples(whole / "examples.safetensors"); });
  part("best.safetensors", [&] { read_best(run, whole / "best.safetensors"); });
  return run;
}

}  // namespace whisker
