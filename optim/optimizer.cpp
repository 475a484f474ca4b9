// Groups, moments and the calls into the backend.
#include "optim/optimizer.h"

#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/io/text.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace whisker {
namespace {

bool is_undecayed(const Parameter& parameter, const OptimizerOptions& options) {
  return !options.decay_all &&
         (parameter.role() == ParameterRole::bias || parameter.role() == ParameterRole::norm);
}

StepRule rule_of(const OptimizerOptions& options, bool scale_loss) {
  const bool adaptive = options.kind == OptimizerKind::adam || options.kind == OptimizerKind::adamw;
  return {.clip_norm = options.clip_norm,
          .beta1 = adaptive ? options.beta1 : 0,
          .beta2 = adaptive ? options.beta2 : 0,
          .scales_loss = scale_loss};
}

}  // namespace

namespace {

// What the parameters of a group have in common.
struct Group {
  double rate_factor = 1;
  double decay = 0;
  bool frozen_at_first = false;
  bool operator==(const Group&) const = default;
};

struct Groups {
  std::vector<Group> all;
  std::vector<size_t> of;  // by parameter
};

// Equal parameters and options give equal groups.
Groups groups_of(const ParameterList& parameters, const OptimizerOptions& options) {
  Groups groups;
  const std::vector<int> behind = blocks_behind(parameters);
  std::vector<bool> used(options.groups.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = *parameters[i];
    const auto rule = std::ranges::find_if(options.groups, [&](const GroupRule& r) {
      return matches_pattern(r.pattern, parameter.name());
    });
    Group group{.rate_factor = std::pow(options.layer_decay, behind[i]),
                .decay = options.weight_decay,
                .frozen_at_first = parameter.frozen_at_first()};
    if (rule != options.groups.end()) {
      used[static_cast<size_t>(rule - options.groups.begin())] = true;
      group.rate_factor *= rule->learning_rate_factor;
      group.decay = rule->weight_decay.value_or(group.decay);
    }
    if (is_undecayed(parameter, options)) group.decay = 0;
    auto found = std::ranges::find(groups.all, group);
    if (found == groups.all.end()) found = groups.all.insert(found, group);
    groups.of.push_back(static_cast<size_t>(found - groups.all.begin()));
  }
  for (size_t rule = 0; rule < used.size(); ++rule) {
    if (used[rule]) continue;
    const std::string& pattern = options.groups[rule].pattern;
    const auto matched = std::ranges::count_if(
        parameters, [&](const auto& one) { return matches_pattern(pattern, one->name()); });
    if (matched == 0) {
      fail(ErrorKind::usage, "optimizer.groups: pattern '{}' matches no parameter name", pattern);
    }
    fail(ErrorKind::usage,
         "optimizer.groups: no parameter is left for pattern '{}': groups before it have all {} "
         "that it matches, and the first matching one counts. Put it before them.",
         pattern, matched);
  }
  constexpr size_t most = 256;
  if (groups.all.size() > most) {
    fail(ErrorKind::usage,
         "optimizer: expected at most {} combinations of learning rate and weight decay, got {}: "
         "optimizer.groups and optimizer.layer_decay make too many.",
         most, groups.all.size());
  }
  return groups;
}

}  // namespace

std::string_view block_of(std::string_view parameter) {
  const size_t layer = std::min(parameter.rfind('.'), parameter.size());  // its end
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t end = 0;  // of the last part that is in
  bool numbered = false;
  for (size_t begin = 0; begin < layer;) {
    const size_t dot = std::min(parameter.find('.', begin), layer);
    const std::string_view part = parameter.substr(begin, dot - begin);
    const bool number = std::ranges::all_of(part, is_digit);
    if (numbered && !number) break;
    numbered = numbered || (!part.empty() && is_digit(part.back()));
    end = dot;
    begin = dot + 1;
  }
  return numbered ? parameter.substr(0, end) : parameter.substr(0, layer);
}

std::vector<int> blocks_behind(const ParameterList& parameters) {
  std::map<std::string_view, int> number_of;
  for (const auto& parameter : parameters) {
    const ParameterRole role = parameter->role();
    if (role != ParameterRole::weight && role != ParameterRole::conv_weight) continue;
    number_of.emplace(block_of(parameter->name()), static_cast<int>(number_of.size()));
  }
  std::vector<int> behind;
  int last = 0;
  for (const auto& parameter : parameters) {
    const auto found = number_of.find(block_of(parameter->name()));
    if (found != number_of.end()) last = found->second;
    behind.push_back(std::max(0, static_cast<int>(number_of.size()) - 1 - last));
  }
  return behind;
}

void Optimizer::assign_groups(const ParameterList& parameters, const OptimizerOptions& options) {
  const Groups groups = groups_of(parameters, options);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i]->set_group(static_cast<int>(groups.of[i]));
  }
}

std::vector<const char*> Optimizer::moment_names(const OptimizerOptions& options) {
  const bool momentum = options.momentum != 0;
  switch (options.kind) {
    case OptimizerKind::sgd:
      return momentum ? std::vector{"momentum_buffer"} : std::vector<const char*>{};
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::rmsprop: {
      std::vector<const char*> names = {"square_avg"};
      if (momentum) names.push_back("momentum_buffer");
      if (options.centered) names.push_back("grad_avg");
      return names;
    }
  }
  return {};
}

Optimizer::Optimizer(ParameterArena& arena, OptimizerOptions options, bool scale_loss)
    : arena_(arena),
      options_(std::move(options)),
      rule_(rule_of(options_, scale_loss)),
      memory_(arena.device(), {.loss_scale = scale_loss ? first_loss_scale : 1}) {
  write_groups(true);
  for (const char* name : moment_names(options_)) {
    moments_.push_back({name, arena_.make_like(MemoryCategory::optimizer)});
  }
}

// Those that wait for unfreeze() have a rate of 0.
void Optimizer::write_groups(bool frozen_at_first) {
  std::vector<double> values;  // factor of the learning rate, weight decay
  for (const Group& group : groups_of(arena_.parameters(), options_).all) {
    const bool waits = frozen_at_first && group.frozen_at_first;
    values.push_back(waits ? 0 : group.rate_factor);
    values.push_back(waits ? 0 : group.decay);
  }
  const Tensor host = from_vector(values, {static_cast<int64_t>(values.size() / 2), 2},
                                  {.dtype = DType::f64, .device = arena_.device()});
  groups_.defined() ? groups_.copy_(host) : void(groups_ = host);
}

void Optimizer::unfreeze() {
  write_groups(false);
}

void Optimizer::restart() {
  for (const Moment& moment : moments_) moment.flat.fill_(0);
  set_steps(0);
}

Tensor Optimizer::moment(size_t index) const {
  static constexpr const char* names[3][2] = {
      {"exp_avg", "momentum_buffer"}, {"exp_avg_sq", "square_avg"}, {"grad_avg", "grad_avg"}};
  for (const Moment& moment : moments_) {
    for (const char* name : names[index]) {
      if (std::string_view(name) == moment.name) return moment.flat;
    }
  }
  return {};
}

void Optimizer::enqueue_update() {
  Backend& backend = backend_of(arena_.device());
  StepState* state = memory_.state();
  std::vector<OptimizerStep> steps;
  for (const ParameterRun& run : arena_.runs()) {
    const auto part = [&](const Tensor& flat) { return flat.defined() ? run.of(flat) : flat; };
    steps.push_back({
        .kind = options_.kind,
        .nesterov = options_.nesterov,
        .centered = options_.centered,
        .decoupled_decay = options_.kind == OptimizerKind::adamw,
        .momentum = options_.momentum,
        .beta1 = options_.beta1,
        .beta2 = options_.kind == OptimizerKind::rmsprop ? options_.alpha : options_.beta2,
        .epsilon = options_.epsilon,
        .clip_value = options_.clip_value,
        .state = state,
        .groups = groups_,
        .block_group = run.block_group,
        .value = run.value,
        .gradient = run.gradient,
        .compute = run.compute,
        .moment1 = part(moment(0)),
        .moment2 = part(moment(1)),
        .moment3 = part(moment(2)),
    });
  }
  backend.training_step().update(rule_, state, steps);
  arena_.bump_epoch();
}

StepReport Optimizer::step(double learning_rate, double gradient_scale) {
  memory_.write_inputs({.learning_rate = learning_rate, .gradient_scale = gradient_scale});
  arena_.complete_gradients();
  enqueue_update();
  StepState state = memory_.read();
  const StepReport report{.gradient_norm = state.gradient_norm, .finite = state.applies != 0};
  if (state.failure != StepFailure::none) {  // the caller is told, and may go on
    state.failure = StepFailure::none;
    state.failed_batch = -1;
    state.sound = 1;
    memory_.write(state);
  }
  return report;
}

void Optimizer::set_steps(int64_t steps) {
  StepState state = memory_.read();
  state.steps = steps;
  memory_.write(state);
}

}  // namespace whisker
