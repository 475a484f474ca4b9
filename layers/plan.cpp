// Sums over a planned pass.
#include "layers/plan.h"

#include <algorithm>

namespace whisker {

Plan Plan::of(const Module& model, const Shape& x) {
  Plan plan;
  model.add_to(plan, plan.add_input(x));
  return plan;
}

int Plan::add_input(const Shape& shape) {
  const int value = static_cast<int>(values_.size());
  values_.push_back({.shape = shape, .needs_grad = false, .memory = value});
  return value;
}

int Plan::add(const Module& layer, std::vector<int> inputs, const Shape& output,
              const OperatorCost& cost) {
  const int value = static_cast<int>(values_.size());
  bool needs = false;
  for (const int input : inputs) needs |= needs_grad(input);
  for (const auto& parameter : layer.own_parameters()) needs |= parameter->trainable();
  const int memory = cost.view ? values_[static_cast<size_t>(inputs.front())].memory : value;
  values_.push_back({.shape = output, .needs_grad = needs, .memory = memory});
  operators_.push_back({&layer, std::move(inputs), value, cost});
  return value;
}

int64_t Plan::multiply_adds() const {
  int64_t total = 0;
  for (const PlannedOperator& op : operators_) total += op.cost.multiply_adds;
  return total;
}

int64_t Plan::kept_bytes() const {
  std::vector<bool> kept(values_.size());
  const auto keep = [&](int value) {
    kept[static_cast<size_t>(values_[static_cast<size_t>(value)].memory)] = true;
  };
  int64_t total = 0;
  for (const PlannedOperator& op : operators_) {
    if (op.cost.keeps_input) keep(op.inputs.front());
    if (op.cost.keeps_output) keep(op.output);
    total += op.cost.kept_bytes;
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    if (kept[i]) total += values_[i].shape.count() * element_bytes;
  }
  return total;
}

int64_t Plan::peak_bytes() const {
  std::vector<size_t> last_use(values_.size());
  const auto memory_of = [&](int value) {
    return static_cast<size_t>(values_[static_cast<size_t>(value)].memory);
  };
  for (size_t i = 0; i < operators_.size(); ++i) {
    for (const int input : operators_[i].inputs) last_use[memory_of(input)] = i;
    last_use[memory_of(operators_[i].output)] = i;
  }
  int64_t alive = values_.empty() ? 0 : values_.front().shape.count();
  int64_t peak = alive;
  for (size_t i = 0; i < operators_.size(); ++i) {
    const size_t made = memory_of(operators_[i].output);
    if (made == static_cast<size_t>(operators_[i].output)) alive += values_[made].shape.count();
    peak = std::max(peak, alive + operators_[i].cost.transient_bytes / element_bytes);
    for (size_t value = 0; value < values_.size(); ++value) {
      const bool owns = memory_of(static_cast<int>(value)) == value;
      if (owns && last_use[value] == i) alive -= values_[value].shape.count();
    }
  }
  return peak * element_bytes;
}

int64_t Plan::gradient_bytes() const {
  int64_t largest = 0;
  for (const PlannedOperator& op : operators_) {
    if (!needs_grad(op.output) || op.cost.view) continue;
    int64_t elements = shape(op.output).count();
    for (const int input : op.inputs) {
      if (needs_grad(input)) elements += shape(input).count();
    }
    elements += op.cost.transient_bytes / element_bytes;
    largest = std::max(largest, elements);
  }
  return largest * element_bytes;
}

}  // namespace whisker
