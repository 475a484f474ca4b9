// Chooses what to check; networks shrink until the finite differences take seconds.
#include "apps/study/gradcheck_report.h"

#include "core/autograd/autograd.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/tensor/philox.h"
#include "core/trace/operator_table.h"
#include "layers/builder/presets.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

namespace whisker {
namespace {

// Multiply-adds of all forward passes together: well under a minute on one core of the reference.
constexpr double multiply_adds_budget = 2e10;
constexpr int64_t smallest_image = 8;
constexpr int64_t fewest_steps = 4;

// The image's side or the sequence's steps, `full` as configured, halved until the check's work fits
// the budget or the network does not fit.
void shrink(int64_t full, int64_t StudyOptions::*size, StudyOptions& options,
            const std::function<double(const StudyOptions&)>& work) {
  const int64_t least = size == &StudyOptions::steps ? fewest_steps : smallest_image;
  options.*size = full;
  while (options.*size / 2 >= least && work(options) > multiply_adds_budget) {
    StudyOptions smaller = options;
    smaller.*size /= 2;
    if (work(smaller) == 0) return;
    options = smaller;
  }
}

GradcheckReport check_network(const GradcheckRequest& request) {
  Config config = resolve_config(request.config ? *request.config
                                                : read_config(request.what, request.overrides));
  StudyOptions options = request.network;
  options.tensor = {.dtype = DType::f64, .device = reference_device};
  if (options.batch == 0) options.batch = 2;
  GradcheckOptions check{.tolerance = request.tolerance,
                         .elements = request.elements > 0 ? request.elements : 3};
  StudyOptions single = request.network;
  single.batch = 1;
  const Model probe = StudyNetwork(config, single).model();
  const auto parameters = static_cast<double>(probe.net->parameters().size());
  const bool sequences = probe.batch_axis == 1;
  const int64_t full = probe.input[sequences ? 0 : 1];
  int64_t StudyOptions::*const size = sequences ? &StudyOptions::steps : &StudyOptions::image_size;
  const auto work = [&](const StudyOptions& tried) {
    return 2 * static_cast<double>(check.elements) * parameters *
           static_cast<double>(study_multiply_adds(config, tried));
  };
  shrink(full, size, options, work);
  if (work(options) > multiply_adds_budget && request.elements == 0) check.elements = 1;
  const bool quick = work(options) <= multiply_adds_budget;
  const StudyNetwork network(std::move(config), options);
  std::vector<GradcheckInput> inputs;
  for (const auto& parameter : network.arena().parameters()) {
    if (parameter->trainable()) inputs.push_back({parameter->name(), parameter->value()});
  }
  const auto results = gradcheck([&] { return network.loss(); }, inputs, check);
  GradcheckReport report = gradcheck_report(results, {}, request.tolerance);
  std::string heading = network.describe();
  if (options.*size != full) {
    heading += fmt::format(" ({} instead of {} {}, so that this takes {})", options.*size, full,
                           sequences ? "steps" : "pixels a side", quick ? "seconds" : "minutes");
  }
  report.text = heading + "\n\n" + report.text;
  return report;
}

GradcheckReport check_operators(const GradcheckRequest& request) {
  std::vector<GradcheckResult> results;
  std::vector<std::string> owners;
  for (const OperatorRow& op : operator_table()) {
    if (request.what != "all" && request.what != op.name) continue;
    for (GradcheckResult& result :
         gradcheck_operator(op, {.tolerance = request.tolerance, .elements = request.elements})) {
      results.push_back(std::move(result));
      owners.emplace_back(op.name);
    }
  }
  return gradcheck_report(results, owners, request.tolerance);
}

// The usual arguments of a row; those of a comparison have no operands.
std::unique_ptr<Arguments> usual_arguments(const OperatorRow& op) {
  auto arguments = std::make_unique<Arguments>(stream_of(op.name));
  const NoGrad off_tape;
  op.call(*arguments);
  return arguments;
}

}  // namespace

std::vector<GradcheckResult> gradcheck_operator(const OperatorRow& op,
                                                const GradcheckOptions& options) {
  const auto arguments = usual_arguments(op);
  std::vector<GradcheckInput> inputs;
  for (const auto& [name, tensor] : arguments->operands()) inputs.push_back({name, tensor});
  if (inputs.empty()) return {};
  const auto call = [&] {
    arguments->restart();
    return op.call(*arguments);
  };
  return gradcheck(call, inputs, options);
}

std::string gradcheck_choices(size_t width) {
  TextTable table({"operator", "operands"});
  for (const OperatorRow& op : operator_table()) {
    std::string operands;
    const auto arguments = usual_arguments(op);
    for (const auto& [name, tensor] : arguments->operands()) {
      operands += fmt::format("{}{} {}", operands.empty() ? "" : ", ", name, tensor.shape());
    }
    if (!operands.empty()) table.add({op.name, operands});
  }
  return table.str("", width) +
         "\nwhisker study gradcheck OPERATOR checks one of these,\n'all' all of them, a YAML file "
         "or "
         "a preset its network.\n";
}

std::vector<std::string> gradcheck_operators() {
  std::vector<std::string> names = {"all"};
  for (const OperatorRow& op : operator_table()) {
    if (!usual_arguments(op)->operands().empty()) names.emplace_back(op.name);
  }
  return names;
}

GradcheckReport run_gradcheck(const GradcheckRequest& request) {
  std::vector<std::string> names = gradcheck_operators();
  if (std::find(names.begin(), names.end(), request.what) != names.end()) {
    if (!request.overrides.empty()) {
      fail(ErrorKind::usage, "study gradcheck: '{}': overrides go with a YAML file, not with {}.",
           request.overrides[0], request.what == "all" ? "all operators" : "an operator");
    }
    return check_operators(request);
  }
  const std::string ending = file_ending(request.what);
  if (request.config || ending == ".yaml" || ending == ".yml" ||
      std::filesystem::exists(request.what)) {
    return check_network(request);
  }
  const std::string operators = fmt::format("{}", fmt::join(names, ", "));
  for (std::string& preset : preset_names()) names.push_back(std::move(preset));
  const std::string nearest = nearest_name(request.what, names);
  if (!nearest.empty()) {
    fail(ErrorKind::usage,
         "study gradcheck: no operator, preset or file is called {}; did you mean '{}'?",
         excerpt(request.what), nearest);
  }
  fail(ErrorKind::usage,
       "study gradcheck: no operator, preset or file is called {}. Operators: {}.",
       excerpt(request.what), operators);
}

GradcheckReport gradcheck_report(std::span<const GradcheckResult> results,
                                 std::span<const std::string> owners, double tolerance) {
  std::vector<std::string> headings = {"tensor",    "shape",  ">checked", "worst at",
                                       ">gradient", ">slope", ">error",   "verdict"};
  if (!owners.empty()) headings.insert(headings.begin(), "op");
  TextTable table(headings);
  size_t wrong = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const GradcheckResult& result = results[i];
    std::vector<std::string> cells = {result.name,
                                      result.shape.str(),
                                      fmt::format("{}/{}", result.checked, result.shape.count()),
                                      position_in(result.shape, result.index),
                                      fmt::format("{:.9g}", result.gradient),
                                      fmt::format("{:.9g}", result.slope),
                                      fmt::format("{:.1e}", result.error),
                                      result.passed ? "ok" : "WRONG"};
    if (!owners.empty()) {
      cells.insert(cells.begin(), i > 0 && owners[i] == owners[i - 1] ? "" : owners[i]);
    }
    table.add(std::move(cells));
    wrong += !result.passed;
  }
  const std::string verdict =
      wrong == 0 ? fmt::format("all {} gradients agree with finite differences (tolerance {:g})",
                               results.size(), tolerance)
                 : fmt::format("{} of {} gradients are wrong (tolerance {:g})", wrong,
                               results.size(), tolerance);
  return {.text = table.str() + "\n" + verdict + "\n", .passed = wrong == 0};
}

}  // namespace whisker
