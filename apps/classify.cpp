// whisker classify WEIGHTS PICTURES...: the most probable classes of each picture. Unreadable
// pictures are reported and passed over; the exit code is 3 when there were any.
#include "apps/command.h"
#include "apps/inputs.h"
#include "core/io/json.h"
#include "train/experiment.h"
#include "train/picture_classifier.h"
#include "train/plan_cache.h"

#include <algorithm>
#include <numeric>

namespace whisker {
namespace {

/// With --device auto, up to this many are left to the CPU.
constexpr size_t few_pictures = 32;

struct ClassifyArguments {
  std::string weights;
  std::vector<std::string> inputs;
  int64_t top = 1;
  bool json = false;
  bool jsonl = false;
  std::string device = "auto";
  int64_t batch_size = 16;
};

constexpr int schema_version = 1;

std::vector<size_t> most_probable(std::span<const float> probabilities, size_t count) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) {
        return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
      });
  order.resize(count);
  return order;
}

void write_json(JsonWriter& json, const PictureResult& result,
                const std::vector<std::string>& classes, size_t top) {
  json.begin_object().field("path", result.path);
  if (!result.error.empty()) {
    json.field("error", bare_reason(result.path, result.error)).end_object();
    return;
  }
  json.key("predictions").begin_array();
  for (const size_t c : most_probable(result.probabilities, top)) {
    json.begin_object().field("class", classes[c]).field("probability", result.probabilities[c]);
    json.end_object();
  }
  json.end_array().end_object();
}

std::string text_line(const PictureResult& result, const std::vector<std::string>& classes,
                      size_t top) {
  std::string line = result.path + ":";
  for (const size_t c : most_probable(result.probabilities, top)) {
    line += fmt::format("  {} {:.4f}", classes[c], result.probabilities[c]);
  }
  return line + "\n";
}

int run_classify(const ClassifyArguments& arguments) {
  const std::vector<std::string> paths = expand_inputs(arguments.inputs);
  if (paths.empty()) fail(ErrorKind::data, "classify: no pictures found in what was given");
  // Starting CUDA costs more than a few pictures take.
  const bool few = paths.size() <= few_pictures && arguments.device == "auto";
  const Device device = few ? cpu_device : resolve_device(arguments.device);
  load_plans(device);
  const Classifier classifier = Classifier::load(weights_file(arguments.weights), device);
  const std::vector<std::string>& classes = classifier.classes();
  const auto top = static_cast<size_t>(arguments.top);
  bool failed = false;
  JsonWriter all;
  if (arguments.json) {
    all.begin_object().field("schema_version", schema_version).key("pictures").begin_array();
  }
  classify_pictures(classifier, paths, arguments.batch_size, [&](const PictureResult& result) {
    failed = failed || !result.error.empty();
    if (!result.error.empty()) tell_unreadable(result.path, result.error);
    if (arguments.json) {
      write_json(all, result, classes, top);
    } else if (arguments.jsonl) {
      JsonWriter one;
      write_json(one, result, classes, top);
      print_result(one.str() + "\n");
    } else if (result.error.empty()) {
      print_result(text_line(result, classes, top));
    }
  });
  save_plans(device);
  if (arguments.json) print_result(all.end_array().end_object().str() + "\n");
  return failed ? static_cast<int>(ErrorKind::data) : 0;
}

}  // namespace

void add_classify_command(CLI::App& app, Invocation& invocation) {
  CLI::App* classify = app.add_subcommand("classify", "Name what is on pictures");
  auto arguments = std::make_shared<ClassifyArguments>();
  classify->add_option("WEIGHTS", arguments->weights, "Weights file (safetensors)")->required();
  classify->add_option("PICTURES", arguments->inputs, "Files, folders, or - for a list on stdin")
      ->required();
  classify->add_option("--top", arguments->top, "Classes per picture")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  CLI::Option* json = classify->add_flag("--json", arguments->json, "One JSON object");
  classify->add_flag("--jsonl", arguments->jsonl, "One JSON object per line")->excludes(json);
  classify->add_option("--device", arguments->device, "auto, cpu, reference or cuda:N")
      ->capture_default_str();
  classify->add_option("--batch-size", arguments->batch_size, "Pictures at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  classify->callback([&invocation, arguments] {
    invocation.run = [arguments] { return run_classify(*arguments); };
  });
}

}  // namespace whisker
