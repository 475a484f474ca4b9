// Groups, moments and the calls into the backend.
#include "optim/optimizer.h"

#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/io/text.h"

namespace whisker {
namespace {

// Group indices: 2 r and 2 r + 1 for rule r (rules first, then the default), odd ones undecayed.
int group_index(size_t rule, bool undecayed) {
  return static_cast<int>(2 * rule + undecayed);
}

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

void Optimizer::assign_groups(const ParameterList& parameters, const OptimizerOptions& options) {
  std::vector<bool> used(options.groups.size());
  for (const auto& parameter : parameters) {
    size_t rule = 0;
    while (rule < options.groups.size() &&
           !matches_pattern(options.groups[rule].pattern, parameter->name())) {
      ++rule;
    }
    if (rule < options.groups.size()) used[rule] = true;
    parameter->set_group(group_index(rule, is_undecayed(*parameter, options)));
  }
  for (size_t rule = 0; rule < used.size(); ++rule) {
    if (!used[rule]) {
      fail(ErrorKind::usage, "optimizer.groups: pattern '{}' matches no parameter name",
           options.groups[rule].pattern);
    }
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
  std::vector<double> groups;  // factor of the learning rate, weight decay
  for (size_t rule = 0; rule <= options_.groups.size(); ++rule) {
    const bool own = rule < options_.groups.size();
    const double decay = own && options_.groups[rule].weight_decay
                             ? *options_.groups[rule].weight_decay
                             : options_.weight_decay;
    for (const bool undecayed : {false, true}) {
      groups.push_back(own ? options_.groups[rule].learning_rate_factor : 1);
      groups.push_back(undecayed ? 0 : decay);
    }
  }
  groups_ = from_vector(groups, {static_cast<int64_t>(groups.size() / 2), 2},
                        {.dtype = DType::f64, .device = arena_.device()});
  for (const char* name : moment_names(options_)) {
    moments_.push_back({name, arena_.make_like(MemoryCategory::optimizer)});
  }
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
