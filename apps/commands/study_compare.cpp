// whisker study compare: two recorded steps tensor by tensor, and where they part.
#include "apps/commands/study_target.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "core/trace/recording_comparison.h"
#include "core/trace/recording_file.h"
#include "core/trace/relu_decisions.h"

#include <memory>
#include <optional>
#include <utility>

namespace whisker {
namespace {

struct CompareArguments {
  StudyTarget target;
  std::string other;
  std::optional<double> tolerance = {};
  StudyView view;
};

bool is_file(const std::string& name) {
  return file_ending(name) == ".safetensors";
}

int run_compare(CompareArguments arguments, const Invocation& invocation) {
  StudyTarget& a = arguments.target;
  a.usual_batch = 2;
  if (!a.expression.empty()) {  // the first word is B, the rest are bindings
    if (!arguments.other.empty()) a.arguments.insert(a.arguments.begin(), arguments.other);
    arguments.other = std::exchange(a.name, {});
  }
  if (arguments.other.empty()) {
    fail(ErrorKind::usage,
         "study compare: B: expected a recording, a file of tensors, another TARGET, or what "
         "differs in A's (device=reference, precision=bf16), got nothing.");
  }
  const std::string key = arguments.other.substr(0, arguments.other.find('=') + 1);
  const bool of_step = key.empty() || key == "device=" || key == "precision=" || key == "seed=";
  if (!a.expression.empty() && !of_step && !is_file(arguments.other)) {
    fail(ErrorKind::usage,
         "study compare -e: B: expected what differs (device=reference, precision=bf16, seed=1) "
         "before the values, got {}.",
         excerpt(arguments.other));
  }
  StudyTarget b = a;
  const std::vector<std::string> overrides = a.arguments;
  if (is_file(a.name) && a.expression.empty()) a.arguments.clear();
  const bool changes = arguments.other.find('=') != std::string::npos && !is_file(arguments.other);
  if (changes) {
    if (a.expression.empty() && is_file(a.name)) {
      fail(ErrorKind::usage,
           "study compare: B: a recording stays on its device and in its precision, got {}. Name "
           "what A was recorded of, or another recording.",
           excerpt(arguments.other));
    }
    b.arguments.push_back(arguments.other);
  } else {
    b.name = arguments.other;
    b.expression.clear();
    if (is_file(b.name)) b.arguments.clear();
    if (is_file(b.name) && is_file(a.name) && !overrides.empty()) a.arguments = overrides;
  }
  ReluDecisions relus(arguments.tolerance);
  a.relus = b.relus = &relus;
  const Recording of_a = record_target(a, true, invocation);
  relus.begin_b();
  const auto compared = [&] {
    if (!changes && is_file(b.name)) {
      const SafetensorsFile file = SafetensorsFile::open(b.name);
      if (!file.metadata().contains("format") ||
          file.metadata().at("format") != "whisker recording") {
        return RecordingComparison::of(of_a, file);
      }
      return RecordingComparison::of(of_a, read_recording(file));
    }
    Invocation same;  // A's assumptions are B's
    same.verbosity = changes ? -1 : invocation.verbosity;
    return RecordingComparison::of(of_a, record_target(b, true, same));
  };
  RecordingComparison comparison = compared();
  comparison.relus = relus.elements();
  comparison.relus_alike = relus.changed();
  const double tolerance = arguments.tolerance.value_or(usual_tolerance(comparison.dtype));
  print_result(arguments.view.json ? comparison.json(tolerance) + "\n"
                                   : comparison.text(tolerance, arguments.view.width()));
  return comparison.agrees(tolerance) ? 0 : 1;
}

}  // namespace

void add_compare_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App* compare = study.add_subcommand(
      "compare", "Two steps tensor by tensor, and where they part; exit code 1 where they differ");
  compare->add_option("TARGET", arguments->target.name, "A, as of study step; left out with -e");
  compare->add_option("B", arguments->other,
                      "A recording, a file of tensors, another TARGET, or what differs: "
                      "device=reference");
  compare->add_option("OVERRIDES", arguments->target.arguments,
                      "section.key=value of both; with -e NAME=VALUE");
  add_expression(compare, arguments->target);
  add_network_options(compare, arguments->target, "Examples in the batch (2)");
  compare
      ->add_option("--tolerance", arguments->tolerance,
                   "Units of rounding by which a tensor may differ (512; 64 in bf16 and f16)")
      ->check(above_zero());
  add_view_options(compare, arguments->view);
  set_action(compare, invocation,
             [&invocation, arguments] { return run_compare(*arguments, invocation); });
}

}  // namespace whisker
