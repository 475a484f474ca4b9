#include "core/autograd/gradients.h"

#include "core/autograd/engine.h"

namespace whisker {

const Tensor& Gradients::dy(size_t output) {
  Node::Output& slot = outputs_[output];
  engine_->complete(*node_, slot);
  if (!slot.gradient.defined()) {
    slot.gradient = zeros(slot.shape, {.dtype = slot.dtype, .device = slot.device});
  }
  return slot.gradient;
}

UnsummedGrads Gradients::unsummed_grads(size_t output) {
  const Node::Output& slot = outputs_[output];
  if (slot.unsummed.defined()) return {slot.gradient, slot.unsummed};
  return {dy(output), {}};
}

bool Gradients::has_dy(size_t output) const {
  return outputs_[output].gradient.defined();
}

bool Gradients::needs(size_t input) const {
  return engine_->wants(node_->inputs_[input]);
}

bool Gradients::recording() const {
  return engine_->recording();
}

Tensor Gradients::grad_buffer(size_t input) {
  const Edge& edge = node_->inputs_[input];
  if (Tensor placed = engine_->grad_buffer(edge); placed.defined()) return placed;
  const Node::Output& output = edge.node->outputs_[edge.output];
  later_.emplace_back(input, empty(output.shape, {.dtype = output.dtype, .device = output.device}));
  return later_.back().second;
}

void Gradients::accumulate_grad(size_t input, Tensor gradient) {
  if (needs(input)) engine_->contribute(node_->inputs_[input], std::move(gradient));
}

void Gradients::accumulate_broadcast_grad(size_t input, const Tensor& gradient) {
  if (needs(input)) engine_->contribute_broadcast(node_->inputs_[input], gradient);
}

void Gradients::no_double_backward(const char* remedy) const {
  if (recording()) {
    fail(ErrorKind::usage, "{}: gradients of gradients are not available for this operator.{}{}",
         node_->name(), *remedy ? " " : "", remedy);
  }
}

void Gradients::finish() {
  for (auto& [input, gradient] : later_) accumulate_grad(input, std::move(gradient));
}

}  // namespace whisker
