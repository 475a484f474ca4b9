#include "core/autograd/node.h"

#include "core/autograd/gradient_operators.h"
#include "core/autograd/gradients.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"

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

Leaf::Leaf(const Tensor& value, Tensor slot, std::string_view name)
    : Node("leaf"), own_name_(name), slot_(std::move(slot)) {
  if (!name.empty()) name_ = own_name_.c_str();
  outputs_.resize(1);
  outputs_[0].shape = value.shape();
  outputs_[0].dtype = value.dtype();
  outputs_[0].device = value.device();
}

Tensor Leaf::gradient() const {
  const std::lock_guard lock(mutex_);
  return gradient_;
}

void Leaf::clear() {
  const std::lock_guard lock(mutex_);
  gradient_ = {};
}

Tensor Leaf::begin_writing() {
  if (!slot_.defined() || slot_.dtype() != outputs_[0].dtype) return {};
  const std::lock_guard lock(mutex_);
  if (gradient_.defined()) return {};
  writing_ = true;
  return slot_;
}

void Leaf::run(Gradients& gradients) {
  Tensor& arrived = gradients.outputs_[0].gradient;
  const std::lock_guard lock(mutex_);
  if (!writing_) return add(arrived);
  if (gradients.outputs_ == outputs_.span().data()) {  // by this run
    writing_ = false;
    add(arrived);
    return add_waiting();
  }
  const Tensor term = arrived.to(slot_.dtype());
  waiting_ = waiting_.defined() ? whisker::add(waiting_, term) : term.clone();
}

void Leaf::abandon() {
  const std::lock_guard lock(mutex_);
  if (!writing_) return;
  writing_ = false;
  add_waiting();
}

void Leaf::add_waiting() {
  if (waiting_.defined()) add(waiting_);
  waiting_ = {};
}

void Leaf::add(Tensor& term) {
  if (slot_.defined()) {
    const Tensor wide = term.to(slot_.dtype());  // a slot may be wider than the gradients
    if (gradient_.defined()) {
      backend_of(slot_.device()).elementwise().accumulate(wide, slot_);
    } else if (!wide.same(slot_)) {
      slot_.copy_(wide);
    }
    gradient_ = slot_;
  } else if (!gradient_.defined()) {
    gradient_ = term.exclusive() ? std::move(term) : term.clone();
  } else if (gradient_.exclusive()) {
    backend_of(gradient_.device()).elementwise().accumulate(term, gradient_);
  } else {
    gradient_ = whisker::add(gradient_, term);  // somebody holds the old sum
  }
}

}  // namespace whisker
