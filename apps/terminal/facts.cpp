#include "apps/terminal/facts.h"

#include "apps/terminal/command.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/terminal.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/user_folder.h"
#include "core/io/utf8.h"
#include "data/files/text_file.h"
#include "train/experiment.h"
#include "train/metrics/metrics.h"
#include "train/model/imagenet_classes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

// The number at the beginning of a line ("1,dog", "1: dog") or at its end ("dog 1"), and the rest.
std::optional<std::pair<size_t, std::string_view>> numbered_name(std::string_view line, bool last) {
  constexpr std::string_view digits = "0123456789", between = " \t,;:=.)";
  const size_t edge = last ? line.find_last_not_of(digits) : line.find_first_not_of(digits);
  if (edge == line.npos || between.find(line[edge]) == between.npos) return std::nullopt;
  const std::string_view number = last ? line.substr(edge + 1) : line.substr(0, edge);
  std::string_view name = last ? line.substr(0, edge) : line.substr(edge);
  const size_t rest = last ? name.find_last_not_of(between) : name.find_first_not_of(between);
  size_t value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || rest == name.npos || read.ec != std::errc()) return std::nullopt;
  return std::pair(value, last ? name.substr(0, rest + 1) : name.substr(rest));
}

// A list of numbers and names in another order may be meant by number, or line by line; a first
// line with # may be a comment.
void refuse_numbered(const std::vector<std::string>& names, const std::string& path) {
  const auto is_comment = [](const std::string& name) { return name.starts_with("# "); };
  if (is_comment(names[0]) && std::ranges::count_if(names, is_comment) == 1) {
    fail(ErrorKind::data,
         "{}:1: expected a class name, got {}, which looks like a comment. Remove "
         "that line.",
         path, excerpt(names[0]));
  }
  for (const bool last : {false, true}) {
    std::vector<size_t> numbers;
    std::set<std::string_view> rests;
    for (const std::string& line : names) {
      const auto found = numbered_name(line, last);
      if (!found) break;
      numbers.push_back(found->first);
      rests.insert(found->second);
    }
    if (numbers.size() < names.size() || rests.size() < names.size()) continue;
    std::vector<size_t> sorted = numbers;
    std::ranges::sort(sorted);
    const bool all = sorted[0] <= 1 && sorted.back() - sorted[0] + 1 == sorted.size() &&
                     std::ranges::adjacent_find(sorted) == sorted.end();
    if (!all || sorted == numbers) continue;
    const size_t line =
        static_cast<size_t>(std::ranges::mismatch(numbers, sorted).in1 - numbers.begin());
    fail(ErrorKind::data,
         "{}:{}: {} has the number {} and is the name of class {} in the order of the lines, as "
         "--classes reads them. Sort the lines by their numbers, or remove the numbers.",
         path, line + 1, excerpt(names[line]), numbers[line], line);
  }
}

std::vector<std::string> read_names(const std::string& path) {
  const std::string text = read_text(path, LineEnds::lf_for_cr);
  if (find_invalid_utf8(text) != std::string_view::npos) {
    fail(ErrorKind::data, "{}: expected class names in UTF-8, one per line", path);
  }
  std::vector<std::string> names;
  std::string name;
  const auto end_line = [&] {
    if (name.ends_with('\r')) name.pop_back();
    names.push_back(std::move(name));
    name.clear();
  };
  for (const char c : text) {
    if (c == '\n') {
      end_line();
    } else {
      name += c;
    }
  }
  if (!name.empty()) end_line();
  if (names.empty()) fail(ErrorKind::data, "{}: expected class names, one per line", path);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      fail(ErrorKind::data, "{}:{}: expected a class name, got an empty line", path, i + 1);
    }
  }
  refuse_numbered(names, path);
  return names;
}

}  // namespace

void tell_notes(const std::vector<std::string>& notes, const Invocation& invocation) {
  for (const std::string& note : notes) {
    if (invocation.verbosity >= 0) tell(note + "\n");
  }
}

void FactOptions::add_to(CLI::App* command) {
  command->add_option("--model", model,
                      "Which network WEIGHTS from elsewhere are: a preset, or timm's or "
                      "torchvision's name, with the tag of its weights if it has one "
                      "(resnet50.a3_in1k)");
  command->add_option(
      "--classes", classes,
      "Class names for WEIGHTS that lack them: imagenet, or a FILE of one per line");
  command
      ->add_option("--input", preprocess,
                   "KEY=VALUE of the data section (image_size, resize_short, interpolation, mean, "
                   "std, ...) in place of the weights' own; repeatable")
      ->allow_extra_args(false);
  command->add_option("--weights-key", weights_key,
                      "Of a checkpoint in WEIGHTS: the key of the weights, as model_ema, or the "
                      "words before a dot in their tensors' names (the likeliest, which is told)");
}

GivenFacts FactOptions::read() const {
  GivenFacts facts{
      .classes = {}, .preprocess = preprocess, .model = model, .weights_key = weights_key};
  if (classes == "imagenet") {
    facts.classes = imagenet_classes();
  } else if (!classes.empty()) {
    facts.classes = read_names(classes);
  }
  return facts;
}

bool FactOptions::gives(std::string_view key) const {
  return std::ranges::any_of(preprocess, [&](const std::string& one) {
    return std::string_view(one).substr(0, one.find('=')) == key;
  });
}

void add_force(CLI::App* command, bool& force) {
  command->add_flag("--force", force,
                    "Replace files that are not this command's own, and weights; never inputs or a "
                    "run's files");
}

Outputs make_outputs(const char* command, bool force, const Invocation& invocation) {
  remove_outputs_on_stop();
  return Outputs(command, force, [told = invocation.verbosity >= 0](const std::string& note) {
    if (told) tell(note + "\n");
  });
}

std::string check_output_name(const std::string& name) {
  return name.empty() ? "expected a name, got ''" : unexpanded(name);
}

namespace {

const std::map<std::string, PrecisionKind>& precision_names() {
  static const std::map<std::string, PrecisionKind> names = {{"auto", PrecisionKind::automatic},
                                                             {"f32", PrecisionKind::f32},
                                                             {"bf16", PrecisionKind::bf16},
                                                             {"f16", PrecisionKind::f16}};
  return names;
}

template <class Precision>
CLI::Option* add_precision_option(CLI::App* command, Precision& precision) {
  return command
      ->add_option_function<std::string>(
          "--precision",
          [&precision](const std::string& name) { precision = precision_names().at(name); },
          "What layers compute in; auto: bf16 or f16 on a GPU, f32 on a CPU")
      ->check(CLI::IsMember(&precision_names()));
}

// "loss 0.1250 accuracy 0.9580" of a validation.
std::string figures_of(const JsonValue& metrics) {
  std::string text;
  for (const char* name :
       {"loss", "accuracy", "f1_macro", "f1_class", "mae", "rmse", "perplexity"}) {
    const JsonValue* value = metrics.find(name);
    if (!value || !value->is_number()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", name, figure_text(value->as_double()));
  }
  return text;
}

}  // namespace

void add_precision(CLI::App* command, PrecisionKind& precision) {
  add_precision_option(command, precision)->default_str("f32");
}

void add_precision(CLI::App* command, std::optional<PrecisionKind>& precision) {
  add_precision_option(command, precision)->default_str("that of the validation in WEIGHTS");
}

StoredPrecision stored_precision(const SafetensorsFile& weights, Device device) {
  const auto found = weights.metadata().find("metrics");
  if (found == weights.metadata().end()) return {};
  JsonValue metrics;
  try {
    // The confusion matrix of many classes is part of it.
    metrics = JsonValue::parse(found->second, {.name = weights.name(), .max_values = 100'000'000});
    const auto kind = precision_names().find(metrics.at("precision").as_string());
    if (kind == precision_names().end() || kind->second == PrecisionKind::f32) return {};
    try {
      return {.dtype = compute_dtype(kind->second, device),
              .note = fmt::format("{}: evaluated in {}, as its validation was: --precision f32 "
                                  "computes in f32",
                                  printable(weights.name()), kind->first)};
    } catch (const Error&) {
      return {.note =
                  fmt::format("{}: its validation in {} gave {}; {} does not compute in {}, and "
                              "evaluates in f32",
                              printable(weights.name()), kind->first, figures_of(metrics), device,
                              kind->first)};
    }
  } catch (const Error&) {  // of a version that did not store it, or made elsewhere
    return {};
  }
}

}  // namespace whisker
