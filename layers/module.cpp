// Names, and the walks over the tree of modules.
#include "layers/module.h"

#include "core/io/text.h"
#include "layers/memory_plan.h"

#include <unordered_set>

namespace whisker {
namespace {

void collect(const Module& module, std::unordered_set<const Parameter*>& seen,
             ParameterList& result) {
  for (const auto& parameter : module.own_parameters()) {
    if (seen.insert(parameter.get()).second) result.push_back(parameter);
  }
  for (const Module::Child& child : module.children()) collect(*child.module, seen, result);
}

}  // namespace

bool selects(std::string_view pattern, std::string_view name) {
  return matches_pattern(pattern, name) || matches_pattern(std::string(pattern) + ".*", name);
}

std::string join_path(const std::string& parent, const std::string& name) {
  if (parent.empty()) return name;
  return name.empty() ? parent : parent + "." + name;
}

std::string Module::description() const {
  const std::string settings = describe();
  return settings.empty() ? type() : type() + " " + settings;
}

OperatorCost Module::cost(const Shape&, bool) const {
  return {};
}

int Module::add_to(MemoryPlan& plan, int x) const {
  const Shape input = plan.shape(x);
  return plan.add(*this, {x}, output_shape(input), cost(input, plan.needs_grad(x)));
}

void Module::set_path(const std::string& path) {
  path_ = path;
  for (size_t i = 0; i < own_.size(); ++i) own_[i]->set_name(join_path(path, own_names_[i]));
  for (const Child& child : children_) child.module->set_path(join_path(path, child.name));
}

ParameterList Module::parameters() const {
  std::unordered_set<const Parameter*> seen;
  ParameterList result;
  collect(*this, seen, result);
  std::unordered_set<std::string> names;
  for (const auto& parameter : result) {
    if (!names.insert(parameter->name()).second) {
      fail(ErrorKind::usage,
           "model: two parameters are called '{}'; give one of the layers another name",
           parameter->name());
    }
  }
  return result;
}

bool Module::frozen() const {
  bool has_trainable_role = false;
  for (const auto& parameter : own_) {
    if (parameter->trains()) return false;
    has_trainable_role |= !parameter->is_buffer();
  }
  return has_trainable_role;
}

int64_t Module::freeze_norm() {
  int64_t frozen = 0;
  for (const auto& parameter : parameters()) {
    if (parameter->role() != ParameterRole::norm) continue;
    frozen += parameter->trainable();
    parameter->set_trainable(false);
  }
  return frozen;
}

int64_t Module::freeze(std::span<const std::string> patterns, bool at_first) {
  const ParameterList all = parameters();
  int64_t frozen = 0;
  for (const std::string& pattern : patterns) {
    bool used = false;
    for (const auto& parameter : all) {
      if (parameter->is_buffer() || !selects(pattern, parameter->name())) continue;
      used = true;
      const bool counted = at_first ? parameter->frozen_at_first() : !parameter->trainable();
      frozen += !counted;
      at_first ? parameter->set_frozen_at_first() : parameter->set_trainable(false);
    }
    if (used) continue;
    std::vector<std::string> names;
    for (const auto& parameter : all) {
      const std::string& name = parameter->name();
      for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
        names.push_back(name.substr(0, dot));
      }
      names.push_back(name);
    }
    const std::string nearest = nearest_name(pattern, names);
    fail(ErrorKind::usage, "freeze: '{}' matches no parameter{}", pattern,
         nearest.empty() ? std::string(". `whisker summary` lists the names.")
                         : fmt::format("; did you mean '{}'?", nearest));
  }
  return frozen;
}

std::shared_ptr<Parameter> Module::add_parameter(const std::string& name, const Shape& shape,
                                                 ParameterRole role, Initializer initializer) {
  auto parameter = std::make_shared<Parameter>(shape, role, std::move(initializer));
  parameter->set_name(join_path(path_, name));
  own_names_.push_back(name);
  own_.push_back(parameter);
  return parameter;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> module) {
  module->set_path(join_path(path_, name));
  children_.push_back({name, std::move(module)});
}

}  // namespace whisker
