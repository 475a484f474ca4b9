// See Note [Floor].
#include "layers/analysis/step_work.h"

#include "layers/memory_plan.h"
#include "layers/recurrent.h"

namespace whisker {
namespace {

double bytes_of(int64_t elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(size_of(dtype));
}

// Elements of a layer's own parameters: those that are trained, and all.
struct Weights {
  double all = 0, trained = 0;
};

Weights weights_of(const Module& layer, DType dtype) {
  Weights weights;
  for (const auto& parameter : layer.own_parameters()) {
    const double bytes = bytes_of(parameter->shape().count(), dtype);
    weights.all += bytes;
    if (parameter->trainable()) weights.trained += bytes;
  }
  return weights;
}

// Operations by which a recurrent layer's steps hand gradients to the steps before and the layers
// below, whether or not the input wants one: those of all products but the input's.
double operations_through_time(const MemoryPlan& plan, const PlannedOperator& op) {
  if (!dynamic_cast<const Recurrent*>(op.layer)) return 0;
  int64_t of_input = 0;  // multiply-adds of a step
  for (const auto& parameter : op.layer->own_parameters()) {
    if (parameter->name().find("weight_ih_l0") != std::string::npos) {
      of_input += parameter->shape().count();
    }
  }
  const Shape& x = plan.shape(op.inputs[0]);  // steps and sequences first
  return 2 * static_cast<double>(op.cost.multiply_adds - x[0] * x[1] * of_input);
}

void add_operator(StepWork& work, const MemoryPlan& plan, const PlannedOperator& op,
                  const StepWorkOptions& options) {
  const DType dtype = options.types.compute.value_or(options.types.master);
  const double products = 2 * static_cast<double>(op.cost.multiply_adds);
  const double output = bytes_of(plan.shape(op.output).count(), dtype);
  double inputs = 0, wanted = 0;
  for (const int input : op.inputs) {
    const double bytes = bytes_of(plan.shape(input).count(), dtype);
    inputs += bytes;
    if (plan.needs_grad(input)) wanted += bytes;
  }
  const Weights weights = weights_of(*op.layer, dtype);
  const std::string& name = op.layer->path();
  work.passes.push_back({name, products, inputs + weights.all + output});
  if (options.inference || !plan.needs_grad(op.output)) return;
  const double kept = op.cost.keeps_output ? output : 0;
  const double saved = op.cost.keeps_input || op.cost.keeps_second_input ? inputs : 0;
  if (op.cost.multiply_adds == 0) {  // one pass makes every gradient
    work.passes.push_back({name + " backward", 0, output + kept + saved + wanted});
    return;
  }
  if (wanted > 0) {
    work.passes.push_back(
        {name + " input gradient", products, output + kept + weights.all + wanted});
  }
  if (const double operations = operations_through_time(plan, op); wanted == 0 && operations > 0) {
    work.passes.push_back({name + " gradient through time", operations, output + weights.all});
  }
  if (weights.trained > 0) {
    work.passes.push_back({name + " weight gradient", products,
                           output + (wanted > 0 ? 0 : kept) + saved + weights.trained});
  }
}

// Masters and moments are read and written, gradients read, copies for layers written.
void add_update(StepWork& work, const Model& model, const StepWorkOptions& options) {
  int64_t trained = 0;
  for (const auto& parameter : model.net->parameters()) {
    if (parameter->trainable()) trained += parameter->shape().count();
  }
  if (trained == 0) return;
  const DType compute = options.types.compute.value_or(options.types.master);
  const DType gradient = options.types.wide_gradients ? options.types.master : compute;
  double bytes = bytes_of(trained, options.types.master) * 2 * (1 + options.moments);
  bytes += bytes_of(trained, gradient);
  if (options.types.compute) bytes += bytes_of(trained, compute);
  work.passes.push_back({"update", 0, bytes});
}

template <class Value>
double sum(const std::vector<PassWork>& passes, Value&& value) {
  double all = 0;
  for (const PassWork& pass : passes) all += value(pass);
  return all;
}

}  // namespace

double StepWork::operations() const {
  return sum(passes, [](const PassWork& pass) { return pass.operations; });
}
double StepWork::bytes() const {
  return sum(passes, [](const PassWork& pass) { return pass.bytes; });
}
double StepWork::floor_ms(const Ceilings& ceilings) const {
  return sum(passes, [&](const PassWork& pass) { return pass.floor_ms(ceilings); });
}

StepWork step_work(const Model& model, const StepWorkOptions& options) {
  StepWork work;
  const MemoryPlan plan = MemoryPlan::of(*model.net, model.input);
  for (const PlannedOperator& op : plan.operators()) {
    if (!op.cost.view) add_operator(work, plan, op, options);
  }
  if (!options.inference) add_update(work, model, options);
  return work;
}

}  // namespace whisker
