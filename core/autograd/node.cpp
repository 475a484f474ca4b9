#include "core/autograd/node.h"

#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/ops/ops.h"

#include <atomic>

namespace whisker {

Node::Node(const char* name) : name_(name) {
  static std::atomic<uint64_t> next{0};
  sequence_ = next.fetch_add(1, std::memory_order_relaxed);
}

void Node::dispose(Node* node) {
  static constinit thread_local bool deleting = false;
  static constinit thread_local Node* dying = nullptr;
  node->next_dying_ = dying;
  dying = node;
  if (deleting) return;
  deleting = true;
  while (dying) delete std::exchange(dying, dying->next_dying_);
  deleting = false;
}

void Node::add_hook(GradHook hook) {
  if (!hooks_) hooks_ = std::make_unique<std::vector<GradHook>>();
  hooks_->push_back(std::move(hook));
}

void Recorder::finish(Ref<Node> node, std::span<const Tensor* const> inputs,
                      std::span<const Tensor* const> outputs) {
  node->inputs_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->defined()) {
      node->inputs_[i] = {inputs[i]->node(), inputs[i]->output_index()};
    }
  }
  node->outputs_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Node::Output& output = node->outputs_[i];
    output.shape = outputs[i]->shape();
    output.dtype = outputs[i]->dtype();
    output.device = outputs[i]->device();
    outputs[i]->attach(node, static_cast<uint32_t>(i));
  }
  if (grad_mode.observer) grad_mode.observer->on_record(*node, inputs, outputs);
}

Leaf::Leaf(const Tensor& value, Tensor slot) : Node("leaf"), slot_(std::move(slot)) {
  outputs_.resize(1);
  outputs_[0].shape = value.shape();
  outputs_[0].dtype = value.dtype();
  outputs_[0].device = value.device();
}

void Leaf::clear() {
  gradient_ = {};
}

void Leaf::run(Gradients&) {
  Tensor& arrived = outputs_[0].gradient;
  if (slot_.defined()) {
    const Tensor term = arrived.to(slot_.dtype());  // a slot may be wider than the gradients
    if (gradient_.defined()) {
      backend_of(slot_.device()).elementwise().accumulate(term, slot_);
    } else if (!term.same(slot_)) {
      slot_.copy_(term);
    }
    gradient_ = slot_;
  } else if (!gradient_.defined()) {
    gradient_ = arrived.exclusive() ? std::move(arrived) : arrived.clone();
  } else if (gradient_.exclusive()) {
    backend_of(gradient_.device()).elementwise().accumulate(arrived, gradient_);
  } else {
    gradient_ = add(gradient_, arrived);  // somebody holds the old sum
  }
}

}  // namespace whisker
