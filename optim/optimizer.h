// Optimizers over a parameter arena: SGD, Adam, AdamW and RMSprop as torch.optim defines them, one
// fused pass per step. Groups give patterns of parameters their own learning rate and decay.
#pragma once

#include "core/backend/optimizer_step.h"
#include "core/parameters/parameters.h"
#include "core/parameters/step_memory.h"

#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// Settings for the parameters whose name matches `pattern` (`*`: any run of characters).
struct GroupRule {
  std::string pattern;
  double learning_rate_factor = 1;          ///< multiplies the schedule's rate
  std::optional<double> weight_decay = {};  ///< replaces OptimizerOptions::weight_decay
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  double learning_rate = 1e-3;
  double momentum = 0;    ///< sgd, rmsprop
  bool nesterov = false;  ///< sgd with momentum
  double beta1 = 0.9;     ///< adam, adamw
  double beta2 = 0.999;   ///< adam, adamw
  double alpha = 0.99;    ///< rmsprop: decay of the squared average
  bool centered = false;  ///< rmsprop: subtract the squared mean
  double epsilon = 1e-8;
  double weight_decay = 0;             ///< L2 added to the gradient; adamw: decoupled
  bool decay_all = true;               ///< false: no decay on biases and normalisation parameters
  /// Factor of the learning rate per block of layers before the last (see block_of).
  double layer_decay = 1;
  double clip_norm = 0;                ///< scale gradients down to this global 2-norm; 0 is off
  double clip_value = 0;               ///< clamp each gradient to +-this; 0 is off
  std::vector<GroupRule> groups = {};  ///< the first matching rule wins
};

struct StepReport {
  double gradient_norm = 0;  ///< global 2-norm before clipping
  bool finite = true;        ///< false: nothing was changed
};

/// The block of layers that a parameter belongs to: its name up to the first number, with numbers
/// that follow at once ("features.3", "layer1.0", "encoder_layer_7"), or its layer's name.
std::string_view block_of(std::string_view parameter);
/// The number of blocks behind each parameter's own. Blocks without a weight (a norm's) belong to
/// the one before.
std::vector<int> blocks_behind(const ParameterList& parameters);

class Optimizer {
 public:
  /// Assigns every parameter its group; call before the arena exists. Throws usage when a rule
  /// matches no parameter, or there are more than 256 groups.
  static void assign_groups(const ParameterList& parameters, const OptimizerOptions& options);

  /// Names of the state tensors that `options` asks for: torch.optim's exp_avg, exp_avg_sq,
  /// momentum_buffer, square_avg, grad_avg.
  static std::vector<const char*> moment_names(const OptimizerOptions& options);

  /// With `scale_loss` (f16), gradients are those of the loss times memory().loss_scale().
  Optimizer(ParameterArena& arena, OptimizerOptions options, bool scale_loss = false);

  /// One update at `learning_rate` from the arena's gradients times `gradient_scale` (1 / number of
  /// accumulated batches). Waits for the device. Changes nothing when the norm is NaN or Inf.
  StepReport step(double learning_rate, double gradient_scale = 1);
  /// Like step(), with inputs and results in memory() and without waiting, from gradients that are
  /// whole (complete_gradients()). A loss (count_batch) or norm that is NaN or Inf stops this and
  /// all later updates; with `scale_loss` it skips this one only.
  void enqueue_update();

  const OptimizerOptions& options() const { return options_; }
  const StepRule& rule() const { return rule_; }
  /// Inputs and results of an update, on the device.
  StepMemory& memory() { return memory_; }
  const StepMemory& memory() const { return memory_; }

  /// Updates done so far; part of a checkpoint. Both wait for the device.
  int64_t steps() const { return memory_.read().steps; }
  void set_steps(int64_t steps);

  /// Updates the parameters that ParameterArena::unfreeze() put on the tape from now on.
  void unfreeze();
  /// Forgets all updates: no moments, no steps.
  void restart();

  struct Moment {
    const char* name;
    Tensor flat;
  };
  /// Flat state tensors that this kind keeps; part of a checkpoint.
  const std::vector<Moment>& moments() const { return moments_; }

 private:
  Tensor moment(size_t index) const;
  void write_groups(bool frozen_at_first);

  ParameterArena& arena_;
  OptimizerOptions options_;
  StepRule rule_;
  Tensor groups_;  // f64 (groups, 2), see OptimizerStep
  std::vector<Moment> moments_;
  StepMemory memory_;
};

}  // namespace whisker
