// Nothing here recurses over the graph.
#include "core/autograd/engine.h"

#include "core/autograd/gradient_operators.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>
#include <utility>

namespace whisker {
namespace {

bool younger_last(const Node* a, const Node* b) {
  return a->sequence() < b->sequence();
}

constinit thread_local Engine* innermost = nullptr;

}  // namespace

Engine::Engine(const BackwardOptions& options, std::span<RequestedGrad> requested)
    : outer_(innermost),
      retain_(options.retain_graph || options.create_graph),
      recording_(options.create_graph),
      requested_(requested),
      on_leaf_(options.on_leaf) {
  for (const RequestedGrad& one : requested_) {
    oldest_ = std::min(oldest_, one.edge.node->sequence_);
  }
  innermost = this;
}

Engine::~Engine() {
  innermost = outer_;
  // Nodes are left only when an operator threw.
  const auto drop = [this](Node& node) {
    const bool own = node.engine_.load(std::memory_order_relaxed) == this;
    if (own && node.is_leaf()) static_cast<Leaf&>(node).abandon();
    reset(node);
  };
  if (current_) drop(*current_);
  for (Node* node : heap_) drop(*node);
}

void Engine::run(const Tensor& root, Tensor gradient) {
  struct Restore {
    bool enabled;
    ~Restore() { grad_mode.enabled = enabled; }
  } restore{std::exchange(grad_mode.enabled, recording_)};
  const Edge start{root.node(), root.output_index()};
  newest_ = start.node->sequence_;
  if (on_leaf_) count_uses(*start.node, 0);
  if (wants(start)) contribute(start, std::move(gradient));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), younger_last);
    Node* const youngest = heap_.back();
    heap_.pop_back();
    if (!holds(*youngest)) continue;  // a leaf, done already
    current_ = youngest;
    step(*current_);
    current_ = nullptr;
  }
}

Engine& Engine::running() {
  return *innermost;
}

void Engine::continue_at(const Node& node, const Tensor& y) {
  const Node::Output& from = node.outputs_[0];
  if (!(y.shape() == from.shape) || y.dtype() != from.dtype || !y.requires_grad()) {
    fail(ErrorKind::usage,
         "{}: expected the {} {} of the first time, got {} {}. What is computed again must compute "
         "the same.",
         node.name_, from.shape, from.dtype, y.shape(), y.dtype());
  }
  const Edge edge{y.node(), y.output_index()};
  if (on_leaf_) count_uses(*edge.node, node.sequence_);
  Node::Output& to = claim(edge);
  to.gradient = from.gradient;
  to.unsummed = from.unsummed;
  continued_.push_back(edge.node);
}

// Counts the uses of leaves by the operators that lead to `root` and are not older than the number
// `since`.
void Engine::count_uses(const Node& root, uint64_t since) {
  std::unordered_set<const Node*> seen = {&root};
  std::vector<const Node*> open = {&root};
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    for (const Edge& edge : node->inputs()) {
      const Node* const input = edge.node.get();
      if (!input) continue;
      if (input->is_leaf()) {
        ++uses_[input];
      } else if (input->sequence_ >= since && seen.insert(input).second) {
        open.push_back(input);
      }
    }
  }
}

// After `node` has run: the leaves that it was the last to use need not wait for older nodes.
void Engine::finish_leaves(const Node& node) {
  for (const Edge& edge : node.inputs()) {
    const auto found = uses_.find(edge.node.get());
    if (found != uses_.end() && --found->second == 0 && holds(*edge.node)) {
      step(*edge.node);
    }
  }
}

bool Engine::wants(const Edge& edge) const {
  const Node* node = edge.node.get();
  if (!node || requested_.empty()) return node;
  return node->is_leaf() ? is_requested(*node) : node->sequence_ >= oldest_;
}

void Engine::contribute(const Edge& edge, Tensor gradient) {
  const Node& node = *edge.node;
  Node::Output& output = claim(edge);
  if (!(gradient.shape() == output.shape) || gradient.dtype() != output.dtype) {
    fail(ErrorKind::internal, "backward: gradient {} {} arrived for a result {} {} of {}",
         gradient.shape(), gradient.dtype(), output.shape, output.dtype, node.name_);
  }
  if (!output.gradient.defined()) {
    output.gradient = std::move(gradient);
  } else if (!output.unsummed.defined() && !node.is_leaf() && !recording_) {
    output.unsummed = std::move(gradient);
  } else {
    accumulate(node, output.gradient, gradient);
  }
}

void Engine::contribute_broadcast(const Edge& edge, const Tensor& gradient) {
  const Node& node = *edge.node;
  Node::Output& output = claim(edge);
  if (gradient.shape() == output.shape || gradient.dtype() != output.dtype ||
      !output.gradient.defined()) {
    return contribute(edge, broadcast_to(gradient, output.shape));
  }
  accumulate(node, output.gradient, gradient);
}

void Engine::complete(const Node& node, Node::Output& output) const {
  if (!output.unsummed.defined()) return;
  accumulate(node, output.gradient, output.unsummed);
  output.unsummed = {};
}

Tensor Engine::grad_buffer(const Edge& edge) {
  Node& node = *edge.node;
  Node::Output& output = claim(edge);
  if (output.gradient.defined()) return {};
  if (node.is_leaf() && requested_.empty() && &output == node.outputs_.span().data()) {
    output.gradient = static_cast<Leaf&>(node).begin_writing();
  }
  if (!output.gradient.defined()) {
    output.gradient = empty(output.shape, {.dtype = output.dtype, .device = output.device});
  }
  return output.gradient;
}

void Engine::reset(Node& node) {
  if (node.engine_.load(std::memory_order_relaxed) != this) {
    apart_.erase(&node);
    return;
  }
  for (Node::Output& output : node.outputs_.span()) {
    output.gradient = output.unsummed = {};
  }
  node.engine_.store(nullptr, std::memory_order_release);
}

bool Engine::holds(const Node& node) const {
  return node.engine_.load(std::memory_order_relaxed) == this ||
         (!apart_.empty() && apart_.contains(&node));
}

bool Engine::is_inside(const Engine* run) const {
  const Engine* around = outer_;
  while (around && around != run) around = around->outer_;
  return around;
}

bool Engine::is_requested(const Node& node) const {
  return std::any_of(requested_.begin(), requested_.end(),
                     [&](const RequestedGrad& one) { return one.edge.node.get() == &node; });
}

// sum += term, which may broadcast; in place when `sum` has no other handle, or is a leaf's own
// memory.
void Engine::accumulate(const Node& node, Tensor& sum, const Tensor& term) const {
  const bool own =
      sum.exclusive() || (node.is_leaf() && sum.same(static_cast<const Leaf&>(node).slot_));
  if (!own || recording_) {
    sum = add(sum, term);
    return;
  }
  ElementwiseKernels& kernels = backend_of(sum.device()).elementwise();
  if (term.shape() == sum.shape() || sum.count() == 0) return kernels.accumulate(term, sum);
  kernels.binary(BinaryOp::add, BroadcastGeometry::of(sum.shape(), term.shape(), sum.shape()),
                 {.a = sum, .b = term}, sum);
}

Node::Output* Engine::outputs_of(Node& node) {
  if (!apart_.empty()) {
    if (const auto found = apart_.find(&node); found != apart_.end()) return &found->second;
  }
  return node.outputs_.span().data();
}

Node::Output& Engine::claim(const Edge& edge) {
  Node& node = *edge.node;
  if (node.engine_.load(std::memory_order_relaxed) == this) return node.outputs_[edge.output];
  queue(node);
  return outputs_of(node)[edge.output];
}

void Engine::queue(Node& node) {
  if (holds(node)) return;
  heap_.push_back(&node);
  const Engine* owner = nullptr;
  if (!node.engine_.compare_exchange_strong(owner, this, std::memory_order_acquire)) {
    const bool nested = is_inside(owner);
    // An outer run will come to a leaf anyway.
    if (nested && node.is_leaf() && requested_.empty() && owner->requested_.empty()) {
      heap_.pop_back();
      return;
    }
    if (nested || !node.is_leaf()) {  // other nodes hold that run's gradients
      heap_.pop_back();
      fail(
          ErrorKind::usage,
          "backward: {} belongs to a graph that {} backward() is walking. {} may only walk a graph "
          "of its own.",
          node.name_, nested ? "an outer" : "another thread's",
          nested ? "A hook or closure" : "A thread");
    }
    const Node::Output& leaf = node.outputs_[0];
    apart_.emplace(&node, Node::Output{leaf.shape, leaf.dtype, leaf.device, {}, {}});
  }
  std::push_heap(heap_.begin(), heap_.end(), younger_last);
}

void Engine::step(Node& node) {
  Node::Output* const outputs = outputs_of(node);
  if (node.released()) {
    fail(ErrorKind::usage,
         "backward: the graph of {} was already used and freed. Pass retain_graph to the first "
         "backward().",
         node.name_);
  }
  if (node.hooks_ || node.is_leaf() || !requested_.empty()) {
    for (size_t i = 0; i < node.outputs_.size(); ++i) complete(node, outputs[i]);
  }
  if (grad_mode.observer) grad_mode.observer->on_backward_begin(node);
  if (node.hooks_) run_hooks(node, outputs[0].gradient);
  bool onward = requested_.empty();
  if (!onward) {
    for (RequestedGrad& one : requested_) {
      if (one.edge.node.get() == &node) {
        one.gradient = outputs[one.edge.output].gradient;
      }
    }
    const auto inputs = node.inputs();
    onward = std::any_of(inputs.begin(), inputs.end(), [&](const Edge& e) { return wants(e); });
  }
  if (onward) {
    Gradients gradients(*this, node, outputs);
    node.run(gradients);
    gradients.finish();
  }
  if (grad_mode.observer) grad_mode.observer->on_backward_end(node);
  if (!retain_ || (node.sequence_ > newest_ && !recording_)) node.release();
  reset(node);
  if (on_leaf_ && node.is_leaf()) on_leaf_(static_cast<const Leaf&>(node).gradient());
  if (on_leaf_) finish_leaves(node);
}

void Engine::run_hooks(Node& node, Tensor& gradient) {
  for (size_t i = 0; gradient.defined() && i < node.hooks_->size(); ++i) {
    const Tensor replaced = (*node.hooks_)[i](gradient);
    if (!replaced.defined()) continue;
    if (!(replaced.shape() == gradient.shape()) || replaced.dtype() != gradient.dtype()) {
      fail(ErrorKind::usage, "backward: a hook of {} was given {} {} and returned {} {}",
           node.name_, gradient.shape(), gradient.dtype(), replaced.shape(), replaced.dtype());
    }
    gradient = replaced;
  }
}

}  // namespace whisker
