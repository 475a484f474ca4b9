// Losses. The fused ones compute their gradient together with the value and keep only that.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/losses.h"
#include "core/ops/checks.h"

namespace whisker {
namespace {

// Losses of 16-bit logits are f32.
Tensor loss_for(const Tensor& logits) {
  const DType dtype = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return empty(Shape(), {.dtype = dtype, .device = logits.device()});
}

void check_loss(const char* op, const Tensor& logits, const Tensor& target) {
  check_computes(op, "logits", logits);
  check_not_empty(op, "logits", logits);
  check_device(op, "logits", logits, "target", target);
  if (needs_grad(target)) {
    fail(ErrorKind::usage, "{}: target {} requires a gradient, which it does not get. Detach it.",
         op, target.shape());
  }
}

void record_loss(const char* op, const Tensor& logits, const Tensor& loss, const Tensor& dlogits) {
  record(op, {&logits}, loss, [dlogits = save(dlogits)](Gradients& g) {
    g.no_double_backward("Compose it from exp, log, sum or softplus to differentiate it twice.");
    const Tensor slope = dlogits(g);
    g.accumulate_grad(0, mul(slope, cast(g.dy(), slope.dtype())));
  });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  constexpr const char* op = "cross_entropy";
  check_rank(op, "logits", logits, 2);
  check_loss(op, logits, target);
  const int64_t rows = logits.extent(0), classes = logits.extent(1);
  const bool soft = target.dtype() != DType::i64;
  if (soft) {
    check_alike(op, "logits", logits, "target", target);
  }
  if (soft ? !(target.shape() == logits.shape()) : !(target.shape() == Shape{rows})) {
    fail(ErrorKind::usage,
         "{}: expected i64 class indices ({}) or probabilities {} for logits {}, got {} {}.", op,
         rows, logits.shape(), logits.shape(), target.dtype(), target.shape());
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail(ErrorKind::usage, "{}: expected label_smoothing in [0, 1], got {}.", op,
         options.label_smoothing);
  }
  const Tensor& weight = options.class_weight;
  if (weight.defined()) {
    check_vector(op, "class_weight", weight, classes, logits, "logits");
    check_alike(op, "logits", logits, "class_weight", weight);
  }
  const CrossEntropyGeometry geometry{.rows = rows,
                                      .classes = classes,
                                      .label_smoothing = options.label_smoothing,
                                      .soft = soft,
                                      .weighted = weight.defined()};
  const Tensor loss = loss_for(logits);
  const Tensor dlogits = needs_grad(logits) ? empty_like(logits) : Tensor();
  backend_of(logits.device())
      .losses()
      .cross_entropy(geometry, {.logits = logits, .target = target, .class_weight = weight},
                     {.loss = loss, .dlogits = dlogits});
  if (op_attributes && weight.defined()) {
    describe_op("class_weight {}", fmt::join(weight.to_vector(), " "));
  }
  record_loss(op, logits, loss, dlogits);
  return loss;
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  check_loss(op, logits, target);
  check_alike(op, "logits", logits, "target", target);
  if (!(target.shape() == logits.shape())) {
    fail(ErrorKind::usage, "{}: expected a target of logits' shape {}, got {}. Use reshape().", op,
         logits.shape(), target.shape());
  }
  const Tensor loss = loss_for(logits);
  const Tensor dlogits = needs_grad(logits) ? empty_like(logits) : Tensor();
  backend_of(logits.device())
      .losses()
      .binary_cross_entropy({.logits = logits, .target = target},
                            {.loss = loss, .dlogits = dlogits});
  record_loss(op, logits, loss, dlogits);
  return loss;
}

Tensor mse_loss(const Tensor& prediction, const Tensor& target) {
  check_alike("mse_loss", "prediction", prediction, "target", target);
  check_not_empty("mse_loss", "prediction", prediction);
  if (!(prediction.shape() == target.shape())) {
    fail(ErrorKind::usage, "mse_loss: expected a target of the prediction's shape {}, got {}.",
         prediction.shape(), target.shape());
  }
  const Tensor deviation = sub(prediction, target);
  return mean(mul(deviation, deviation));
}

}  // namespace whisker
