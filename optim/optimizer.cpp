// Groups, moments and the one call into the backend.
#include "optim/optimizer.h"

#include "core/backend.h"
#include "core/io/text.h"

#include <cmath>

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

Optimizer::Optimizer(ParameterArena& arena, OptimizerOptions options)
    : arena_(arena), options_(std::move(options)) {
  for (size_t rule = 0; rule <= options_.groups.size(); ++rule) {
    const bool own = rule < options_.groups.size();
    const double decay = own && options_.groups[rule].weight_decay
                             ? *options_.groups[rule].weight_decay
                             : options_.weight_decay;
    for (const bool undecayed : {false, true}) {
      groups_.push_back({.weight_decay = undecayed ? 0 : decay});
      group_factors_.push_back(own ? options_.groups[rule].learning_rate_factor : 1);
    }
  }
  for (const char* name : moment_names(options_)) {
    moments_.push_back({name, arena_.make_like(MemoryCategory::optimizer)});
  }
  norm_ = empty({}, {.dtype = DType::f64, .device = arena_.device()});
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

StepReport Optimizer::step(double learning_rate, double gradient_scale) {
  Backend& backend = backend_of(arena_.device());
  arena_.complete_gradients();
  backend.norm(arena_.gradients(), norm_);
  const double norm = norm_.item() * gradient_scale;
  if (!std::isfinite(norm)) return {.gradient_norm = norm, .finite = false};

  double scale = gradient_scale;
  if (options_.clip_norm > 0) scale *= std::min(1.0, options_.clip_norm / (norm + 1e-6));
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].learning_rate = learning_rate * group_factors_[i];
  }
  ++steps_;
  backend.optimizer_step({
      .kind = options_.kind,
      .nesterov = options_.nesterov,
      .centered = options_.centered,
      .decoupled_decay = options_.kind == OptimizerKind::adamw,
      .momentum = options_.momentum,
      .beta1 = options_.beta1,
      .beta2 = options_.kind == OptimizerKind::rmsprop ? options_.alpha : options_.beta2,
      .epsilon = options_.epsilon,
      .step = steps_,
      .gradient_scale = scale,
      .clip_value = options_.clip_value,
      .groups = groups_,
      .block_group = arena_.block_group(),
      .value = arena_.values(),
      .gradient = arena_.gradients(),
      .moment1 = moment(0),
      .moment2 = moment(1),
      .moment3 = moment(2),
  });
  arena_.bump_epoch();
  return {.gradient_norm = norm, .finite = true};
}

}  // namespace whisker
