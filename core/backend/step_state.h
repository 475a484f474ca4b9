// What a training step leaves on the device between its kernels and from one step to the next: one
// plain struct, so that no kernel waits for the host. The rules that change it stand here once, as
// constexpr functions: host backends call them directly, a GPU from kernels of one thread
// (nvcc --expt-relaxed-constexpr, as core/backend/dropout_mask.h).
#pragma once

#include <cstdint>
#include <type_traits>

namespace whisker {

/// What the host tells a batch before its first kernel; all else is worked out on the device.
struct StepInputs {
  int64_t batch = 0;          ///< since training began: what RandomKey::offset points to
  double learning_rate = 0;   ///< of the update, before a group's factor
  double gradient_scale = 1;  ///< of an optimizer's caller; 1 in a run
};

enum class OptimizerKind : uint8_t { sgd, adam, adamw, rmsprop };

/// Fixed for a run.
struct StepRule {
  double clip_norm = 0;      ///< gradients are scaled down to this 2-norm; 0 is off
  double beta1 = 0;          ///< Adam's decay rates, for their bias corrections; else 0
  double beta2 = 0;          ///< likewise
  bool scales_loss = false;  ///< f16: an overflow skips the update and halves the scale
};

/// Why training cannot go on.
enum class StepFailure : int32_t { none, loss, gradient, loss_scale };

/// Sums over batches, since the host last set them.
struct StepTotals {
  double loss = 0;      ///< mean loss of a batch times its rows
  int64_t correct = 0;  ///< rows whose largest logit is the label's
  int64_t rows = 0;
};

struct StepState {
  StepInputs inputs = {};  ///< first: the host overwrites it alone
  StepTotals totals = {};
  double square_sum = 0;       ///< of the gradients; begin_update takes it and leaves 0
  double gradient_norm = 0;    ///< of the last update, before clipping; not finite when that failed
  double gradient_factor = 0;  ///< multiplies every gradient: accumulation, loss scale, clipping
  int64_t steps = 0;           ///< updates done
  double correction1 = 1;      ///< 1 - beta1^steps
  double correction2 = 1;      ///< 1 - beta2^steps
  int64_t failed_batch = -1;   ///< inputs.batch of the failure
  StepFailure failure = StepFailure::none;  ///< once set, nothing is changed any more
  int32_t sound = 1;     ///< no loss since the last update was NaN or Inf: buffers may be committed
  int32_t applies = 0;   ///< begin_update's verdict: optimizer and average do nothing when 0
  float loss_scale = 1;  ///< multiplies the loss before backward
  /// Weight of the batches accumulated for an update, see Note [Accumulated batches] in
  /// train/loop/train_step.h; begin_update divides the gradients by it.
  float group_weight = 1;
  int32_t good_steps = 0;      ///< since the scale last changed
  int32_t skipped_in_row = 0;  ///< updates skipped since the last one that was done
  int64_t skipped = 0;         ///< updates skipped in all
};

static_assert(std::is_trivially_copyable_v<StepState>);

/// The loss scale of a run in f16: doubled after this many good steps, halved at each overflow.
inline constexpr float first_loss_scale = 65536;
inline constexpr int32_t loss_scale_interval = 2000;
/// Skipping this often in a row, or a scale below 1, is divergence.
inline constexpr int32_t most_skipped_in_row = 50;

constexpr bool is_finite(double value) {
  return value - value == 0;
}

/// base^exponent by squaring: the same bits on every device, whatever its pow.
constexpr double integer_power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) power *= base;
    base *= base;
  }
  return power;
}

constexpr void fail_step(StepState& s, StepFailure failure) {
  s.failure = failure;
  s.failed_batch = s.inputs.batch;
  s.sound = 0;
}

/// Takes in one batch, whose `loss` is its mean.
constexpr void count_batch(StepState& s, const StepRule& rule, const StepTotals& batch) {
  if (s.failure != StepFailure::none) return;
  if (!is_finite(batch.loss)) {
    s.sound = 0;
    if (!rule.scales_loss) fail_step(s, StepFailure::loss);
    return;
  }
  s.totals.loss += batch.loss * static_cast<double>(batch.rows);
  s.totals.correct += batch.correct;
  s.totals.rows += batch.rows;
}

/// After an f16 step: see first_loss_scale.
constexpr void adapt_loss_scale(StepState& s) {
  if (s.applies) {
    s.skipped_in_row = 0;
    if (++s.good_steps < loss_scale_interval) return;
    s.loss_scale *= 2;
    s.good_steps = 0;
    return;
  }
  s.good_steps = 0;
  s.loss_scale /= 2;
  ++s.skipped;
  ++s.skipped_in_row;
  if (s.skipped_in_row >= most_skipped_in_row || s.loss_scale < 1) {
    fail_step(s, StepFailure::loss_scale);
  }
}

/// Decides whether the update is done, and with which factors. `root` is sqrt(square_sum). Clipping
/// as torch.nn.utils.clip_grad_norm_, bias corrections as Kingma and Ba 2015.
constexpr void begin_update(StepState& s, const StepRule& rule, double root) {
  const double scale = s.inputs.gradient_scale /
                       (static_cast<double>(s.loss_scale) * static_cast<double>(s.group_weight));
  s.gradient_norm = root * scale;
  s.square_sum = 0;
  s.applies = s.failure == StepFailure::none && s.sound && is_finite(s.gradient_norm);
  if (s.applies) {
    s.gradient_factor = scale;
    const double clip = rule.clip_norm / (s.gradient_norm + 1e-6);
    if (rule.clip_norm > 0 && clip < 1) s.gradient_factor *= clip;
    ++s.steps;
    s.correction1 = 1 - integer_power(rule.beta1, s.steps);
    s.correction2 = 1 - integer_power(rule.beta2, s.steps);
  }
  if (s.failure != StepFailure::none) return;
  s.sound = 1;
  if (rule.scales_loss) {
    adapt_loss_scale(s);
  } else if (!s.applies) {
    fail_step(s, StepFailure::gradient);
  }
}

/// The decay of a moving average in its n-th update: see AverageStep.
constexpr double average_decay(double decay, bool warmup, int64_t n) {
  if (!warmup) return decay;
  const double early = static_cast<double>(1 + n) / static_cast<double>(10 + n);
  return early < decay ? early : decay;
}

}  // namespace whisker
