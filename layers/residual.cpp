// Body, shortcut, sum.
#include "layers/residual.h"

#include "core/ops.h"
#include "layers/conv2d.h"
#include "layers/plan.h"

namespace whisker {

Residual::Residual(std::shared_ptr<Sequential> body, std::shared_ptr<Sequential> projection,
                   const Options& options)
    : options_(options), body_(std::move(body)), projection_(std::move(projection)) {
  add_child("", body_);
  if (projection_) add_child(options_.projection_name, projection_);
  if (!options_.fuse || body_->size() == 0 || !BatchNorm::fuses(options_.activation)) return;
  auto* last = dynamic_cast<BatchNorm*>(body_->layer(body_->size() - 1).get());
  if (!last || last->options().activation.kind != Activation::none) return;
  tail_ = last;
  head_ = dynamic_cast<Conv2D*>(body_->layer(0).get());
}

Tensor Residual::forward(const Tensor& x, const Pass& pass) {
  return forward_between({.y = x}, nullptr, pass).y;
}

BlockEnd Residual::forward_between(const BlockEnd& x, const Residual* next, const Pass& pass) {
  const Tensor shortcut = projection_ ? (*projection_)(x.y, pass) : x.y;
  if (!tail_) {
    const Tensor sum = (*body_)(x.y, pass) + shortcut;
    return {.y = activation(sum, options_.activation)};
  }
  const bool begun = x.convolved.y.defined();
  const Convolved y = body_->forward_range(begun ? 1 : 0, body_->size() - 1,
                                           begun ? x.convolved : Convolved{.y = x.y}, pass);
  if (next && next->head_ && tail_->uses_batch(pass)) {
    BatchNormOperands norm = tail_->operands(y.sums, options_.activation, pass);
    norm.residual = shortcut;
    if (next->head_->joins(y.y, norm)) {
      const TapeScope scope(next->head_->path());
      return next->head_->forward_block_end(y.y, norm);
    }
  }
  const TapeScope scope(tail_->path());
  return {.y = tail_->forward_add(y, shortcut, options_.activation, pass)};
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
