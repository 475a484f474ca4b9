// The search is another forward and backward pass with an observer that checks every value.
#include "train/loop/find_non_finite.h"

#include "core/autograd/autograd.h"

#include <cmath>
#include <optional>

namespace whisker {
namespace {

constexpr const char* overflowed_sum = "the sum of squared gradients, which overflowed";

bool all_finite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return true;
  for (const double value : tensor.to_vector()) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Running statistics are no weights, and have no gradient.
std::string with_kind(const Parameter& parameter) {
  return fmt::format("the {} {}", parameter.is_buffer() ? "running statistic" : "weights",
                     parameter.name());
}

class Watch final : public TapeObserver {
 public:
  void on_record(const Node& node, Tensors, Tensors outputs) override {
    ++operators_;
    for (const Tensor* output : outputs) {
      if (first_.empty() && !all_finite(*output)) {
        first_ = fmt::format("the result {} of {}, operator {} of the forward pass",
                             output->shape(), node.name(), operators_);
      }
    }
  }
  const std::string& first() const { return first_; }

 private:
  int operators_ = 0;
  std::string first_;
};

}  // namespace

std::string find_non_finite_weights(const Experiment& experiment) {
  for (const auto& parameter : experiment.arena->parameters()) {
    if (!all_finite(parameter->value())) return with_kind(*parameter);
  }
  return {};
}

std::string saved_tensor_text(const ParameterArena& arena, std::string_view name) {
  for (const auto& parameter : arena.parameters()) {
    if (parameter->name() == name) return with_kind(*parameter);
  }
  constexpr std::string_view average = "ema.";
  if (!name.starts_with(average)) return fmt::format("the optimizer's state {}", name);
  return fmt::format("the average of the weights {}", name.substr(average.size()));
}

std::string find_non_finite(Experiment& experiment, const Batch& batch, const Pass& pass) {
  if (!all_finite(batch.inputs)) return "the inputs";
  if (pass.states) {
    for (const auto& [path, state] : *pass.states) {
      for (const Tensor& tensor : {state.h, state.c}) {
        if (tensor.defined() && !all_finite(tensor)) {
          return fmt::format("the state that {} carried from the batch before", path);
        }
      }
    }
  }
  if (std::string weights = find_non_finite_weights(experiment); !weights.empty()) return weights;
  std::string accumulated;  // of this step's earlier batches as well
  for (const auto& parameter : experiment.arena->parameters()) {
    if (accumulated.empty() && parameter->trainable() && !all_finite(parameter->gradient())) {
      accumulated = fmt::format("the accumulated gradient of {}", parameter->name());
    }
  }
  Watch watch;
  grad_mode.observer = &watch;
  Tensor loss;
  experiment.arena->zero_grad();
  try {
    loss = experiment.objective->loss(experiment.network->outputs(batch, pass), batch);
    backward(loss);
  } catch (...) {
    grad_mode.observer = nullptr;
    throw;
  }
  grad_mode.observer = nullptr;
  if (!watch.first().empty()) return watch.first();
  if (!all_finite(loss)) return "the loss";
  for (const auto& parameter : experiment.arena->parameters()) {
    if (parameter->trainable() && !all_finite(parameter->gradient())) {
      return fmt::format("the gradient of {}", parameter->name());
    }
  }
  return accumulated.empty() ? overflowed_sum : accumulated;
}

Culprit find_culprit(Experiment& experiment, int64_t number, const Batch* at_hand,
                     CarriedStates states) {
  experiment.objective->set_ranks(nullptr);  // the others wait for this one's error
  Pass pass{.training = true,
            .seed = static_cast<uint64_t>(experiment.config.seed) +
                    (static_cast<uint64_t>(experiment.ranks->rank()) << 32)};
  const auto find = [&](const Batch& batch, int64_t of_run) {
    if (batch.size() == 0) return Culprit{.text = overflowed_sum};
    pass.step = static_cast<uint64_t>(of_run);
    if (!batch.continues) states.clear();
    Culprit culprit{.text = {}, .batch = batch, .states = states, .number = of_run};
    if (experiment.network->signature().task() == Task::language_model) pass.states = &states;
    culprit.text = find_non_finite(experiment, batch, pass);
    return culprit;
  };
  if (at_hand) return find(*at_hand, number);
  // Later batches have left their gradients.
  for (const ParameterRun& run : experiment.arena->runs()) run.gradient.fill_(0);
  const int64_t last = (number - 1) % experiment.batches_per_epoch();
  const int64_t first = last - last % experiment.config.train.accumulate;
  experiment.train->start_epoch((number - 1) / experiment.batches_per_epoch(), first);
  Culprit found{.text = overflowed_sum};
  for (int64_t i = first; i <= last && found.text == overflowed_sum; ++i) {
    const std::optional<Batch> batch = experiment.train->next();
    if (!batch) break;
    found = find(*batch, number - last + i);
  }
  return found;
}

}  // namespace whisker
