// Body, shortcut, sum.
#include "layers/residual.h"

#include "core/ops/ops.h"
#include "layers/memory_plan.h"

namespace whisker {

Residual::Residual(std::shared_ptr<Sequential> body, std::shared_ptr<Sequential> projection,
                   const Options& options)
    : options_(options), body_(std::move(body)), projection_(std::move(projection)) {
  add_child("", body_);
  if (projection_) add_child(options_.projection_name, projection_);
}

Tensor Residual::forward(const Tensor& x, const Pass& pass) {
  const Tensor added = shortcut(x, pass);
  return activation(run_body(body_->size(), x, pass).y + added, options_.activation);
}

Tensor Residual::shortcut(const Tensor& x, const Pass& pass) {
  return projection_ ? (*projection_)(x, pass) : x;
}

LayerValue Residual::run_body(size_t count, const Tensor& x, const Pass& pass) {
  return body_->forward_range(0, count, {.y = x}, pass);
}

std::string Residual::describe() const {
  return "add" + activation_suffix(options_.activation);
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

int Residual::add_to(MemoryPlan& plan, int x) const {
  const Shape y = output_shape(plan.shape(x));
  const int shortcut = projection_ ? projection_->add_to(plan, x) : x;
  const int inner = body_->add_to(plan, x);
  const bool needs = plan.needs_grad(inner) || plan.needs_grad(shortcut);
  return plan.add(*this, {inner, shortcut}, y,
                  {.keeps_output = needs && cost(y, needs).keeps_output});
}

}  // namespace whisker
