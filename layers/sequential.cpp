// Calls of the children, as the table of fused layers has it.
#include "layers/sequential.h"

#include "layers/memory_plan.h"

#include <algorithm>

namespace whisker {

void Sequential::add_named(const std::string& name, std::shared_ptr<Module> module) {
  add_child(name, std::move(module));
  fusions_.clear();
}

namespace {

template <class Visit>
void visit_lists(Module& module, const Visit& visit) {
  if (auto* const list = dynamic_cast<Sequential*>(&module)) visit(*list);
  for (const Module::Child& child : module.children()) visit_lists(*child.module, visit);
}

}  // namespace

void Sequential::set_fuse(bool fuse) {
  visit_lists(*this, [&](Sequential& list) { list.fuse_ = fuse; });
}

void Sequential::fix_weights() {
  visit_lists(*this, [](Sequential& list) { list.fixed_weights_ = true; });
  for (const auto& parameter : parameters()) {
    if (const Tensor& value = parameter->value(); value.defined()) {
      value.storage()->set_constant();
    }
  }
}

Tensor Sequential::forward(const Tensor& x, const Pass& pass) {
  return forward_range(0, size(), {.y = x}, pass).y;
}

LayerValue Sequential::forward_range(size_t begin, size_t end, const LayerValue& x,
                                     const Pass& pass) {
  if (fixed_weights_ && pass.training) {
    fail(ErrorKind::usage,
         "fix_weights() was called for {}: it computes outputs only. Train a network of its own.",
         path().empty() ? "this network" : path());
  }
  const FusionTarget target{.device = x.y.device().kind,
                            .dtype = x.y.dtype(),
                            .fuse = fuse_,
                            .fixed_weights = fixed_weights_};
  const auto found = std::ranges::find(fusions_, target, &Fusion::target);
  const Fusion& fusion =
      found == fusions_.end() ? fusions_.emplace_back(children(), target) : *found;
  return fusion.forward(begin, end, x, pass);
}

Shape Sequential::output_shape(const Shape& x) const {
  Shape y = x;
  for (const Child& child : children()) y = child.module->output_shape(y);
  return y;
}

int Sequential::add_to(MemoryPlan& plan, int x) const {
  return add_first_to(size(), plan, x);
}

int Sequential::add_first_to(size_t count, MemoryPlan& plan, int x) const {
  FusionTarget target{.dtype = plan.dtype(), .fuse = fuse_};
  if (plan.device()) target.device = plan.device()->kind;
  return Fusion(children(), target).add_to(plan, count, x);
}

std::string Sequential::default_name(const std::string& type) const {
  std::string name = type;
  const auto taken = [&] {
    return std::any_of(children().begin(), children().end(),
                       [&](const Child& child) { return child.name == name; });
  };
  for (int number = 1; taken(); ++number) name = fmt::format("{}_{}", type, number);
  return name;
}

}  // namespace whisker
