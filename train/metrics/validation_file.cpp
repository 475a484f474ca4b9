// validation.safetensors: what ValidationExamples hold, as tensors and one JSON entry.
#include "core/error.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "train/metrics/validation_examples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace whisker {
namespace {

constexpr int64_t file_version = 1;
constexpr const char* file_key = "validation";
constexpr int64_t most_extent = int64_t{1} << 31;

std::string description_json(const ValidationExamples& examples) {
  JsonWriter json;
  json.begin_object().field("version", file_version).field("of", examples.of);
  json.field("epoch", examples.epoch);
  if (examples.is_forecast()) {
    json.list("targets", examples.targets).field("every", examples.every);
  } else {
    json.list("classes", examples.classes);
  }
  if (const auto& areas = examples.rest_areas) {
    json.key("rest_areas").begin_object().field("roc_auc", areas->roc_auc);
    json.field("average_precision", areas->average_precision);
    json.field("classes", areas->classes).end_object();
  }
  return json.end_object().str();
}

template <class T>
SafetensorsEntry entry_of(const char* name, const std::vector<T>& values,
                          std::vector<uint64_t> shape) {
  return {.name = name, .dtype = dtype_of<T>::value, .shape = std::move(shape), .bytes = [&values] {
            return std::as_bytes(std::span(values));
          }};
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : file_(SafetensorsFile::open(path)), name_(printable(path.string())) {}

  ValidationExamples read() {
    const auto found = file_.metadata().find(file_key);
    if (found == file_.metadata().end()) refuse("the metadata 'validation'", "none");
    const JsonValue json =
        JsonValue::parse(found->second, {.name = name_, .kind = ErrorKind::checkpoint});
    if (const int64_t version = json.at("version").as_int(); version != file_version) {
      refuse("version 1", fmt::format("{}, which a newer whisker wrote", version));
    }
    ValidationExamples examples;
    examples.of = json.at("of").as_string();
    examples.epoch = json.at("epoch").as_int(0);
    if (json.find("targets")) {
      examples.targets = json.at("targets").as_strings();
      examples.every = json.at("every").as_int(1);
      read_forecasts(examples);
    } else {
      examples.classes = json.at("classes").as_strings();
      read_classified(examples);
      if (const JsonValue* areas = json.find("rest_areas")) {
        examples.rest_areas = {.roc_auc = areas->at("roc_auc").as_double(),
                               .average_precision = areas->at("average_precision").as_double(),
                               .classes = areas->at("classes").as_int(1)};
        const RestAreas& read = *examples.rest_areas;
        check_values("rest_areas", std::vector{read.roc_auc, read.average_precision}, 0, 1);
        check_values("rest_areas", std::vector{static_cast<double>(read.classes)}, 1,
                     static_cast<double>(std::ssize(examples.classes)));
      }
    }
    if (file_.find("contents")) read_column("contents", examples.size(), examples.contents);
    return examples;
  }

 private:
  [[noreturn]] void refuse(std::string_view expected, std::string_view got) const {
    fail(ErrorKind::checkpoint,
         "{}: expected {}, got {}. The next validation that is the best writes the file again.",
         name_, expected, got);
  }

  // The values of a tensor of `axes` axes; its shape.
  template <class T>
  std::vector<int64_t> read_tensor(const char* name, size_t axes, std::vector<T>& values) const {
    const SafetensorsTensor* const tensor = file_.find(name);
    if (!tensor) refuse(fmt::format("a tensor '{}'", name), "none");
    if (tensor->dtype != dtype_of<T>::value || tensor->shape.size() != axes) {
      refuse(
          fmt::format("'{}' in {} with {} axes", name, safetensors_name(dtype_of<T>::value), axes),
          fmt::format("{} of ({})", safetensors_name(tensor->dtype),
                      fmt::join(tensor->shape, ",")));
    }
    std::vector<int64_t> shape;
    for (const uint64_t extent : tensor->shape) {
      if (extent > static_cast<uint64_t>(most_extent)) refuse("sizes below 2^31", name);
      shape.push_back(static_cast<int64_t>(extent));
    }
    check_finite(file_, *tensor);
    values.resize(tensor->bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return shape;
  }

  template <class T>
  void read_column(const char* name, int64_t count, std::vector<T>& values) const {
    if (read_tensor(name, 1, values)[0] != count) {
      refuse(fmt::format("'{}' of {} examples", name, count), fmt::format("{}", values.size()));
    }
  }

  template <class T>
  void check_values(const char* name, const std::vector<T>& values, double low, double high) const {
    for (const T value : values) {
      const auto number = static_cast<double>(value);
      if (number >= low && number <= high) continue;
      refuse(fmt::format("'{}' from {} to {}", name, low, high), fmt::format("{}", value));
    }
  }

  void read_classified(ValidationExamples& examples) const {
    read_tensor("labels", 1, examples.labels);
    const int64_t count = examples.size();
    const std::vector<int64_t> shape = read_tensor("classes", 2, examples.ranked);
    examples.ranks = std::min<int64_t>(5, std::ssize(examples.classes));
    const std::vector<int64_t> expected = {count, examples.ranks};
    if (shape != expected || read_tensor("probabilities", 2, examples.probabilities) != expected) {
      refuse(fmt::format("'classes' and 'probabilities' of shape ({})", fmt::join(expected, ",")),
             "others");
    }
    read_column("losses", count, examples.losses);
    const auto last_class = static_cast<double>(std::ssize(examples.classes) - 1);
    check_values("labels", examples.labels, 0, last_class);
    check_values("classes", examples.ranked, 0, last_class);
    constexpr double rounding = 1e-4;
    check_values("probabilities", examples.probabilities, 0, 1 + rounding);
    check_values("losses", examples.losses, 0, 100);
    if (file_.find("paths") || file_.find("path_ends")) read_paths(examples);
  }

  void read_paths(ValidationExamples& examples) const {
    std::vector<uint8_t> bytes;
    std::vector<int64_t> ends;
    read_tensor("paths", 1, bytes);
    read_column("path_ends", examples.size(), ends);
    int64_t begin = 0;
    for (const int64_t end : ends) {
      if (end <= begin || end > std::ssize(bytes)) {
        refuse(fmt::format("rising 'path_ends' up to {}", bytes.size()), fmt::format("{}", end));
      }
      const std::string_view path(reinterpret_cast<const char*>(bytes.data()) + begin,
                                  static_cast<size_t>(end - begin));
      if (path.front() == '/' || path.find('\0') != std::string_view::npos) {
        refuse("paths relative to the data", excerpt(path));
      }
      examples.paths.emplace_back(path);
      begin = end;
    }
    if (begin != std::ssize(bytes)) {
      refuse(fmt::format("'path_ends' up to {}", bytes.size()), fmt::format("{}", begin));
    }
  }

  void read_forecasts(ValidationExamples& examples) const {
    const std::vector<int64_t> shape = read_tensor("truths", 3, examples.truths);
    if (read_tensor("predictions", 3, examples.predictions) != shape || shape[1] == 0 ||
        shape[2] == 0 || shape[2] != std::ssize(examples.targets)) {
      refuse(fmt::format("'predictions' and 'truths' of (windows, horizon, {})",
                         examples.targets.size()),
             fmt::format("'truths' of ({})", fmt::join(shape, ",")));
    }
    examples.horizon = shape[1];
  }

  SafetensorsFile file_;
  std::string name_;
};

}  // namespace

void write_validation_examples(const std::filesystem::path& file,
                               const ValidationExamples& examples) {
  const auto count = static_cast<uint64_t>(examples.size());
  const auto ranks = static_cast<uint64_t>(examples.ranks);
  std::vector<SafetensorsEntry> entries;
  std::vector<uint8_t> paths;
  std::vector<int64_t> path_ends;
  if (examples.is_forecast()) {
    const std::vector<uint64_t> shape = {count, static_cast<uint64_t>(examples.horizon),
                                         examples.targets.size()};
    entries.push_back(entry_of("predictions", examples.predictions, shape));
    entries.push_back(entry_of("truths", examples.truths, shape));
  } else {
    entries.push_back(entry_of("labels", examples.labels, {count}));
    entries.push_back(entry_of("classes", examples.ranked, {count, ranks}));
    entries.push_back(entry_of("probabilities", examples.probabilities, {count, ranks}));
    entries.push_back(entry_of("losses", examples.losses, {count}));
  }
  if (!examples.paths.empty()) {
    for (const std::string& path : examples.paths) {
      if (path.empty() || path.front() == '/') {
        fail(ErrorKind::internal, "{}: expected paths relative to the data, got {}.",
             printable(file.string()), excerpt(path));
      }
      paths.insert(paths.end(), path.begin(), path.end());
      path_ends.push_back(std::ssize(paths));
    }
    entries.push_back(entry_of("paths", paths, {paths.size()}));
    entries.push_back(entry_of("path_ends", path_ends, {path_ends.size()}));
  }
  if (!examples.contents.empty()) {
    entries.push_back(entry_of("contents", examples.contents, {count}));
  }
  write_safetensors(file, {{file_key, description_json(examples)}}, std::move(entries));
}

ValidationExamples read_validation_examples(const std::filesystem::path& file) {
  return Reader(file).read();
}

}  // namespace whisker
