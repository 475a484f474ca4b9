// Chooses what to check; networks shrink until the finite differences take seconds.
#include "apps/study/builtin_networks.h"
#include "apps/study/gradcheck_report.h"
#include "core/autograd/autograd.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/tensor/philox.h"
#include "core/trace/gradcheck_twice.h"
#include "core/trace/operator_table.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

namespace whisker {
namespace {

// Multiply-adds of all forward passes together: well under a minute on one core of the reference.
constexpr double multiply_adds_budget = 2e10;
constexpr int64_t smallest_image = 8;
constexpr int64_t fewest_steps = 4;

// The image's side or the sequence's steps, `full` as configured, halved until the check's work
// fits the budget or the network does not fit.
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

GradcheckOptions options_of(const GradcheckRequest& request) {
  GradcheckOptions options{.tolerance = request.tolerance, .elements = request.elements};
  if (request.sweep) options.sweep = sweep_steps();
  return options;
}

GradcheckReport report_of(const GradcheckRequest& request) {
  return {.tolerance = request.tolerance, .second_order = request.second_order};
}

// Checks a loss.
std::vector<GradcheckResult> check_loss(const GradcheckRequest& request,
                                        const std::function<Tensor()>& loss,
                                        std::span<const GradcheckInput> inputs,
                                        const GradcheckOptions& options) {
  return request.second_order ? gradcheck_twice(loss, inputs, options)
                              : gradcheck(loss, inputs, options);
}

GradcheckReport check_network(const GradcheckRequest& request) {
  Config config = resolve_config(read_config(request.what, request.overrides));
  StudyOptions options = request.network;
  options.tensor = {.dtype = DType::f64, .device = reference_device};
  if (options.batch == 0) options.batch = 2;
  GradcheckOptions check = options_of(request);
  if (check.elements == 0) check.elements = 3;
  StudyOptions single = request.network;
  single.batch = 1;
  const Model probe = StudyNetwork(config, single).model();
  const auto parameters = static_cast<double>(probe.net->parameters().size());
  const bool sequences = probe.batch_axis == 1;
  const int64_t full = probe.input[sequences ? 0 : 1];
  int64_t StudyOptions::*const size = sequences ? &StudyOptions::steps : &StudyOptions::image_size;
  const auto work = [&](const StudyOptions& tried) {
    return 2 * static_cast<double>(check.elements) * parameters *
           static_cast<double>((request.second_order ? 3 : 1) * (1 + check.sweep.size())) *
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
  GradcheckReport report = report_of(request);
  report.results = check_loss(
      request, [&] { return network.loss(); }, inputs, check);
  std::string& heading = report.heading = network.describe();
  if (options.*size != full) {
    heading += fmt::format(" ({} instead of {} {}, so that this takes {})", options.*size, full,
                           sequences ? "steps" : "pixels a side", quick ? "seconds" : "minutes");
  }
  return report;
}

GradcheckReport check_operators(const GradcheckRequest& request) {
  GradcheckReport report = report_of(request);
  const bool all = request.what == "all";
  for (const OperatorRow& op : operator_table()) {
    if (!all && request.what != op.name) continue;
    std::vector<GradcheckResult> results;
    try {
      results = gradcheck_operator(op, options_of(request), request.second_order);
    } catch (const Error& error) {
      if (!all || error.kind() != ErrorKind::usage) throw;
      report.unsupported.emplace_back(op.name);
    }
    for (GradcheckResult& result : results) {
      report.results.push_back(std::move(result));
      report.owners.emplace_back(op.name);
    }
  }
  return report;
}

GradcheckReport check_expression(const GradcheckRequest& request, const std::string& formula,
                                 const std::vector<NamedFormula>& bindings) {
  const Expression expression(
      formula, bindings,
      {.tensor = {.dtype = DType::f64, .device = reference_device}, .seed = request.seed});
  std::vector<GradcheckInput> inputs;
  for (const auto& [name, tensor] : expression.tensors()) {
    if (tensor.requires_grad()) inputs.push_back({name, tensor});
  }
  GradcheckReport report = report_of(request);
  report.heading = expression.describe();
  report.results = check_loss(
      request, [&] { return expression.loss(); }, inputs, options_of(request));
  return report;
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
                                                const GradcheckOptions& options,
                                                bool second_order) {
  const auto arguments = usual_arguments(op);
  std::vector<GradcheckInput> inputs;
  for (const auto& [name, tensor] : arguments->operands()) inputs.push_back({name, tensor});
  if (inputs.empty()) return {};
  const auto call = [&] {
    arguments->restart();
    return op.call(*arguments);
  };
  return second_order ? gradcheck_twice(call, inputs, options) : gradcheck(call, inputs, options);
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
         "\nwhisker study gradcheck OPERATOR checks one of these, 'all' all of them,\n"
         "a YAML file its network, -e a formula.\n";
}

std::vector<std::string> gradcheck_operators() {
  std::vector<std::string> names = {"all"};
  for (const OperatorRow& op : operator_table()) {
    if (!usual_arguments(op)->operands().empty()) names.emplace_back(op.name);
  }
  return names;
}

GradcheckReport run_gradcheck(const GradcheckRequest& request) {
  if (!request.expression.empty()) {
    std::vector<NamedFormula> bindings;
    for (const std::string& one : request.overrides) bindings.push_back(binding_of(one));
    return check_expression(request, request.expression, bindings);
  }
  const std::vector<std::string> names = gradcheck_operators();
  if (std::find(names.begin(), names.end(), request.what) != names.end()) {
    if (!request.overrides.empty()) {
      fail(ErrorKind::usage, "study gradcheck: '{}': overrides go with a YAML file, not with {}.",
           request.overrides[0], request.what == "all" ? "all operators" : "an operator");
    }
    return check_operators(request);
  }
  const std::string ending = file_ending(request.what);
  if (ending == ".yaml" || ending == ".yml" || std::filesystem::exists(request.what)) {
    return check_network(request);
  }
  if (const BuiltinNetwork* const network = find_builtin_network(request.what)) {
    if (!request.overrides.empty()) {
      fail(ErrorKind::usage,
           "study gradcheck: {}: {} is built in and checked as it is; -e takes other values.",
           excerpt(request.overrides[0]), request.what);
    }
    return check_expression(request, std::string(network->formula), network->bindings);
  }
  const std::string nearest = nearest_name(request.what, names);
  if (!nearest.empty()) {
    fail(ErrorKind::usage, "study gradcheck: no operator or file is called {}; did you mean '{}'?",
         excerpt(request.what), nearest);
  }
  fail(ErrorKind::usage, "study gradcheck: no operator or file is called {}. Operators: {}.",
       excerpt(request.what), fmt::join(names, ", "));
}

}  // namespace whisker
