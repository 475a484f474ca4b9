// Body, shortcut, sum.
#include "layers/residual.h"

#include "core/ops.h"
#include "layers/conv2d.h"
#include "layers/plan.h"

namespace whisker {
namespace {

/// The last layer when that is a batch_norm without an activation, else null.
BatchNorm* plain_norm_behind(const Sequential& layers) {
  if (layers.size() == 0) return nullptr;
  auto* last = dynamic_cast<BatchNorm*>(layers.layer(layers.size() - 1).get());
  return last && last->options().activation.kind == Activation::none ? last : nullptr;
}

}  // namespace

Residual::Residual(std::shared_ptr<Sequential> body, std::shared_ptr<Sequential> projection,
                   const Options& options)
    : options_(options), body_(std::move(body)), projection_(std::move(projection)) {
  add_child("", body_);
  if (projection_) add_child(options_.projection_name, projection_);
  if (!options_.fuse || !BatchNorm::fuses(options_.activation)) return;
  tail_ = plain_norm_behind(*body_);
  if (!tail_) return;
  head_ = dynamic_cast<Conv2D*>(body_->layer(0).get());
  if (projection_) projection_tail_ = plain_norm_behind(*projection_);
}

Tensor Residual::forward(const Tensor& x, const Pass& pass) {
  return forward_between({.y = x}, nullptr, pass).y;
}

Residual::Shortcut Residual::shortcut_of(const Tensor& x, const Pass& pass) {
  if (!projection_) return {.x = {.y = x}};
  const bool pair = projection_tail_ && projection_->fuses() && tail_->uses_batch(pass) &&
                    projection_tail_->uses_batch(pass) && joins_batch_norms(x);
  if (!pair) return {.x = {.y = (*projection_)(x, pass)}};
  return {.x = projection_->forward_range(0, projection_->size() - 1, {.y = x}, pass),
          .norm = projection_tail_};
}

BlockEnd Residual::forward_between(const BlockEnd& x, const Residual* next, const Pass& pass) {
  const Shortcut shortcut = shortcut_of(x.y, pass);
  if (!tail_) {
    const Tensor sum = (*body_)(x.y, pass) + shortcut.x.y;
    return {.y = activation(sum, options_.activation)};
  }
  const bool begun = x.convolved.y.defined();
  const Convolved y = body_->forward_range(begun ? 1 : 0, body_->size() - 1,
                                           begun ? x.convolved : Convolved{.y = x.y}, pass);
  BatchNormOperands norm = tail_->operands(y.sums, options_.activation, pass);
  if (shortcut.norm) {
    const TapeScope scope(tail_->path());
    return {.y = batch_norm_pair(y.y, norm, shortcut.x.y,
                                 shortcut.norm->operands(shortcut.x.sums, {}, pass))};
  }
  norm.residual = shortcut.x.y;
  if (next && next->head_ && tail_->uses_batch(pass) && next->head_->takes_norm(y.y, norm)) {
    const TapeScope scope(next->head_->path());
    return next->head_->forward_block_end(y.y, norm);
  }
  const TapeScope scope(tail_->path());
  return {.y = tail_->forward_add(y, shortcut.x.y, options_.activation, pass)};
}

std::string Residual::describe() const {
  return (fused() ? "add in batch_norm" : "add") + activation_suffix(options_.activation);
}

Shape Residual::output_shape(const Shape& x) const {
  const Shape y = body_->output_shape(x);
  const Shape shortcut = projection_ ? projection_->output_shape(x) : x;
  if (!(y == shortcut)) {
    fail(ErrorKind::usage,
         "residual: the body gives {}, the {} {}; they must be alike. Use a projection with the "
         "body's strides and filters.",
         y, projection_ ? "projection" : "input", shortcut);
  }
  return y;
}

OperatorCost Residual::cost(const Shape&, bool) const {
  return {.keeps_output = options_.activation.kind != Activation::none};
}

int Residual::add_to(Plan& plan, int x) const {
  const Shape y = output_shape(plan.shape(x));
  const int shortcut = projection_ ? projection_->add_to(plan, x) : x;
  if (tail_) {
    const int inner = body_->add_first_to(body_->size() - 1, plan, x);
    OperatorCost cost = tail_->cost(y, plan.needs_grad(inner));
    cost.keeps_output = options_.activation.kind != Activation::none &&
                        (plan.needs_grad(inner) || plan.needs_grad(shortcut) || !tail_->frozen());
    return plan.add(*tail_, {inner, shortcut}, y, cost);
  }
  const int inner = body_->add_to(plan, x);
  const bool needs = plan.needs_grad(inner) || plan.needs_grad(shortcut);
  return plan.add(*this, {inner, shortcut}, y,
                  {.keeps_output = needs && cost(y, needs).keeps_output});
}

}  // namespace whisker
