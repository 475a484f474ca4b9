// Nothing here recurses over the graph.
#include "core/autograd/engine.h"

#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace whisker {
namespace {

bool younger_last(const Node* a, const Node* b) {
  return a->sequence() < b->sequence();
}

}  // namespace

Engine::Engine(const BackwardOptions& options, std::span<RequestedGrad> requested)
    : retain_(options.retain_graph || options.create_graph),
      recording_(options.create_graph),
      requested_(requested),
      on_leaf_(options.on_leaf) {
  for (const RequestedGrad& one : requested_) {
    oldest_ = std::min(oldest_, one.edge.node->sequence_);
  }
}

Engine::~Engine() {  // something is left only when an operator threw
  if (current_) reset(*current_);
  for (Node* node : heap_) reset(*node);
}

void Engine::run(const Tensor& root, Tensor gradient) {
  struct Restore {
    bool enabled;
    ~Restore() { grad_mode.enabled = enabled; }
  } restore{std::exchange(grad_mode.enabled, recording_)};
  const Edge start{root.node(), root.output_index()};
  if (on_leaf_) count_uses(*start.node);
  if (wants(start)) contribute(start, std::move(gradient));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), younger_last);
    Node* const youngest = heap_.back();
    heap_.pop_back();
    if (youngest->engine_ != this) continue;  // a leaf, done already
    current_ = youngest;
    step(*current_);
    current_ = nullptr;
  }
}

void Engine::count_uses(const Node& root) {
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
      } else if (seen.insert(input).second) {
        open.push_back(input);
      }
    }
  }
}

// After `node` has run: the leaves that it was the last to use need not wait for older nodes.
void Engine::finish_leaves(const Node& node) {
  for (const Edge& edge : node.inputs()) {
    const auto found = uses_.find(edge.node.get());
    if (found != uses_.end() && --found->second == 0 && edge.node->engine_ == this) {
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
  Node& node = *edge.node;
  Node::Output& output = node.outputs_[edge.output];
  if (!(gradient.shape() == output.shape) || gradient.dtype() != output.dtype) {
    fail(ErrorKind::internal, "backward: gradient {} {} arrived for a result {} {} of {}",
         gradient.shape(), gradient.dtype(), output.shape, output.dtype, node.name_);
  }
  queue(node);
  if (!output.gradient.defined()) {
    output.gradient = std::move(gradient);
  } else if (!output.unsummed.defined() && !node.is_leaf() && !recording_) {
    output.unsummed = std::move(gradient);
  } else {
    if (output.factor.defined()) complete(node, output);
    accumulate(node, output.gradient, gradient);
  }
}

void Engine::contribute_broadcast(const Edge& edge, const Tensor& gradient) {
  Node& node = *edge.node;
  Node::Output& output = node.outputs_[edge.output];
  if (gradient.shape() == output.shape || gradient.dtype() != output.dtype ||
      !output.gradient.defined()) {
    return contribute(edge, broadcast_to(gradient, output.shape));
  }
  queue(node);  // refuses a node of another run
  if (output.factor.defined()) {
    if (!output.unsummed.defined() && gradient.shape() == output.factor.shape()) {
      output.unsummed = gradient;
      return;
    }
    complete(node, output);
  }
  accumulate(node, output.gradient, gradient);
}

void Engine::contribute_product(const Edge& edge, const Tensor& gradient, const Tensor& factor) {
  Node& node = *edge.node;
  Node::Output& output = node.outputs_[edge.output];
  const Shape& shape = output.shape;
  if (output.gradient.defined() || node.is_leaf() || recording_ || shape.rank() != 4 ||
      !(gradient.shape() == shape) || !(factor.shape() == shape.with(1, 1).with(2, 1))) {
    return contribute(edge, sum_products_to(gradient, factor, shape));
  }
  contribute(edge, gradient);
  output.factor = factor;
}

void Engine::complete(const Node& node, Node::Output& output) const {
  if (output.factor.defined()) {
    output.gradient = mul(output.gradient, output.factor);
    output.factor = {};
  }
  if (!output.unsummed.defined()) return;
  accumulate(node, output.gradient, output.unsummed);
  output.unsummed = {};
}

Tensor Engine::grad_buffer(const Edge& edge) {
  Node& node = *edge.node;
  Node::Output& output = node.outputs_[edge.output];
  if (output.gradient.defined()) return {};
  queue(node);
  if (node.is_leaf() && requested_.empty()) {
    const auto& leaf = static_cast<const Leaf&>(node);
    const Tensor& slot = leaf.slot_;
    if (slot.defined() && slot.dtype() == output.dtype && !leaf.gradient_.defined()) {
      output.gradient = slot;
    }
  }
  if (!output.gradient.defined()) {
    output.gradient = empty(output.shape, {.dtype = output.dtype, .device = output.device});
  }
  return output.gradient;
}

void Engine::reset(Node& node) {
  node.engine_ = nullptr;
  for (Node::Output& output : node.outputs_.span()) {
    output.gradient = output.unsummed = output.factor = {};
  }
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

void Engine::queue(Node& node) {
  if (node.engine_ == this) return;
  if (node.engine_) {
    // An outer run will come to a leaf anyway; other nodes hold that run's gradients.
    if (node.is_leaf() && requested_.empty() && node.engine_->requested_.empty()) return;
    fail(ErrorKind::usage,
         "backward: {} belongs to a graph that an outer backward() is walking. A hook or closure "
         "may only walk a graph of its own.",
         node.name_);
  }
  heap_.push_back(&node);
  std::push_heap(heap_.begin(), heap_.end(), younger_last);
  node.engine_ = this;
}

void Engine::step(Node& node) {
  if (node.released()) {
    fail(ErrorKind::usage,
         "backward: the graph of {} was already used and freed. Pass retain_graph to the first "
         "backward().",
         node.name_);
  }
  if (node.hooks_ || node.is_leaf() || !requested_.empty() || grad_mode.observer) {
    for (Node::Output& output : node.outputs_.span()) complete(node, output);
  }
  if (grad_mode.observer) grad_mode.observer->on_backward_begin(node);
  if (node.hooks_) run_hooks(node);
  bool onward = requested_.empty();
  if (!onward) {
    for (RequestedGrad& one : requested_) {
      if (one.edge.node.get() == &node) {
        one.gradient = node.outputs_[one.edge.output].gradient;
      }
    }
    const auto inputs = node.inputs();
    onward = std::any_of(inputs.begin(), inputs.end(), [&](const Edge& e) { return wants(e); });
  }
  if (onward) {
    Gradients gradients(*this, node);
    node.run(gradients);
    gradients.finish();
  }
  if (grad_mode.observer) grad_mode.observer->on_backward_end(node);
  reset(node);
  if (on_leaf_ && node.is_leaf()) on_leaf_(static_cast<const Leaf&>(node).gradient());
  if (on_leaf_) finish_leaves(node);
  if (!retain_) node.release();
}

void Engine::run_hooks(Node& node) {
  Tensor& gradient = node.outputs_[0].gradient;
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

namespace {

Tensor root_gradient(const Tensor& root, const BackwardOptions& options, const char* op) {
  if (!root.requires_grad()) {
    fail(ErrorKind::usage, "{}: the root has no graph: no leaf it depends on requires a gradient",
         op);
  }
  if (options.gradient.defined()) {
    const Tensor& gradient = options.gradient;
    if (!(gradient.shape() == root.shape()) || gradient.dtype() != root.dtype() ||
        !(gradient.device() == root.device())) {
      fail(ErrorKind::usage, "{}: the gradient is {} {} on {}, the root {} {} on {}", op,
           gradient.shape(), gradient.dtype(), gradient.device(), root.shape(), root.dtype(),
           root.device());
    }
    return gradient;
  }
  if (root.count() != 1) {
    fail(ErrorKind::usage,
         "{}: the root has shape {}; pass the gradient of a root that is not one element", op,
         root.shape());
  }
  return ones(root.shape(), root.options());
}

}  // namespace

void backward(const Tensor& root, const BackwardOptions& options) {
  if (options.create_graph) {
    fail(ErrorKind::usage,
         "backward: create_graph belongs to grad(), which returns gradients that are on the tape");
  }
  Engine(options, {}).run(root, root_gradient(root, options, "backward"));
}

std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs,
                         const BackwardOptions& options) {
  std::vector<Engine::RequestedGrad> requested;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      fail(ErrorKind::usage, "grad: an input of shape {} requires no gradient", input.shape());
    }
    requested.push_back({{input.node(), input.output_index()}, {}});
  }
  if (requested.empty()) return {};
  Engine(options, requested).run(root, root_gradient(root, options, "grad"));
  std::vector<Tensor> gradients;
  for (Engine::RequestedGrad& one : requested) gradients.push_back(std::move(one.gradient));
  return gradients;
}

}  // namespace whisker
