// whisker study why: why a parameter's gradient is what it is.
#include "apps/commands/study_target.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/trace/gradient_paths.h"

#include <charconv>
#include <memory>
#include <utility>

namespace whisker {
namespace {

struct WhyArguments {
  StudyTarget target;
  std::string parameter, index;
  StudyView view;
};

// TARGET PARAMETER [INDEX], without TARGET for -e; what has an '=' behind the target is a binding.
void settle_words(WhyArguments& arguments) {
  std::vector<std::string> words;
  for (std::string* word : {&arguments.target.name, &arguments.parameter, &arguments.index}) {
    if (!word->empty()) words.push_back(std::exchange(*word, {}));
  }
  for (std::string& word : std::exchange(arguments.target.arguments, {})) {
    words.push_back(std::move(word));
  }
  std::vector<std::string*> places = {&arguments.parameter, &arguments.index};
  if (arguments.target.expression.empty()) places.insert(places.begin(), &arguments.target.name);
  const bool has_target = places.size() == 3;
  size_t next = 0;
  for (std::string& word : words) {
    if (word.find('=') != std::string::npos && (next > 0 || !has_target)) {
      arguments.target.arguments.push_back(std::move(word));
    } else if (next < places.size()) {
      *places[next++] = std::move(word);
    } else {
      fail(ErrorKind::usage,
           "study why: expected {}PARAMETER and at most one INDEX, got {} besides.",
           has_target ? "TARGET, " : "", excerpt(word));
    }
  }
  if (arguments.parameter.empty()) {
    fail(ErrorKind::usage,
         "study why: expected the name of a parameter{}, got none. whisker study trace lists them.",
         has_target ? " behind the target" : "");
  }
}

size_t parameter_named(const Recording& recording, const std::string& name) {
  std::vector<std::string> known;
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    if (entry.kind == TapeKind::op) continue;
    if (entry.name == name) return i;
    if (entry.name != "constant") known.push_back(entry.name);
  }
  const std::string nearest = nearest_name(name, known);
  fail(ErrorKind::usage,
       "study why: no operator of this step reads a parameter {}{} whisker study trace lists them.",
       excerpt(name), nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest));
}

// "0,3" as the row-major position.
int64_t element_at(const std::string& index, const TapeEntry& parameter) {
  const Shape& shape = parameter.shape();
  int64_t element = 0;
  int axis = 0;
  const char* at = index.data();
  const char* const end = at + index.size();
  bool valid = true;
  for (; valid && axis < shape.rank(); ++axis) {
    int64_t one = -1;
    const auto [stop, error] = std::from_chars(at, end, one);
    valid = error == std::errc() && one >= 0 && one < shape[axis] &&
            (axis + 1 < shape.rank() ? stop != end && *stop == ',' : stop == end);
    element = element * shape[axis] + one;
    at = valid && stop != end ? stop + 1 : stop;
  }
  if (!valid || shape.rank() == 0) {
    fail(ErrorKind::usage,
         "study why: INDEX: expected {} with commas between, each below its extent of {}, got {}.",
         counted(shape.rank(), "number"), shape, excerpt(index));
  }
  if (shape.count() > most_recorded_values) {
    fail(ErrorKind::usage,
         "study why: INDEX: {} has {} elements, and values are recorded of at most {}. Leave INDEX "
         "out.",
         parameter.name, shape.count(), most_recorded_values);
  }
  return element;
}

int run_why(WhyArguments arguments, const Invocation& invocation) {
  settle_words(arguments);
  arguments.target.usual_batch = 2;
  const Recording recording = record_target(arguments.target, true, invocation);
  const size_t parameter = parameter_named(recording, arguments.parameter);
  std::optional<int64_t> element;
  if (!arguments.index.empty()) {
    element = element_at(arguments.index, recording.entries[parameter]);
  }
  const GradientPaths paths = GradientPaths::of(recording, parameter, element);
  if (arguments.view.json) {
    JsonWriter json(NonFinite::null);
    json.begin_object().field("schema_version", 1).field("network", recording.title);
    paths.write_json(json, recording);
    print_result(json.end_object().str() + "\n");
  } else {
    print_result(fmt::format("{}\n{}", wrapped_lines(recording.title, arguments.view.width()),
                             paths.text(recording, arguments.view.width())));
  }
  return 0;
}

}  // namespace

void add_why_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<WhyArguments>();
  CLI::App* why = study.add_subcommand(
      "why", "The paths from the loss to a parameter, and where and why its gradient dies");
  why->add_option("TARGET", arguments->target.name, "As of study step; left out with -e");
  why->add_option("PARAMETER", arguments->parameter, "Its name, as study trace lists it");
  why->add_option("INDEX", arguments->index, "One element of it, as 0,3");
  why->add_option("OVERRIDES", arguments->target.arguments,
                  "section.key=value; with -e NAME=VALUE");
  add_expression(why, arguments->target);
  add_network_options(why, arguments->target, "Examples in the batch (2)");
  add_view_options(why, arguments->view);
  set_action(why, invocation, [&invocation, arguments] { return run_why(*arguments, invocation); });
}

}  // namespace whisker
