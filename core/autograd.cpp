// The engine: a heap of nodes keyed by age. Every consumer of a value is younger than the value, so
// the youngest queued node always has its gradient complete. Nothing here recurses over the graph.
#include "core/autograd.h"

#include "core/backend.h"
#include "core/ops.h"

#include <algorithm>

namespace whisker {

// --- the engine ------------------------------------------------------------------------------

class Engine {
 public:
  struct Capture {
    Edge edge;
    Tensor gradient;
  };

  Engine(const BackwardOptions& options, std::span<Capture> captures)
      : retain_(options.retain_graph || options.create_graph),
        recording_(options.create_graph),
        captures_(captures) {
    for (const Capture& capture : captures_) {
      oldest_ = std::min(oldest_, capture.edge.node->sequence_);
    }
  }

  ~Engine() {  // something is left only when an operator threw
    if (current_) reset(*current_);
    for (Node* node : heap_) reset(*node);
  }

  void run(const Tensor& root, Tensor gradient) {
    struct Restore {
      bool enabled;
      ~Restore() { grad_mode.enabled = enabled; }
    } restore{std::exchange(grad_mode.enabled, recording_)};
    const Edge start{root.node(), root.output_index()};
    if (wants(start)) {
      if (gradient.defined()) {
        contribute(start, std::move(gradient));
      } else {
        one_ = &start.node->outputs_[start.output];
        queue(*start.node);
      }
    }
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), younger_last);
      current_ = heap_.back();
      heap_.pop_back();
      step(*current_);
      current_ = nullptr;
    }
  }

  // True when a gradient at `edge` serves somebody: grad() needs none that cannot reach its inputs.
  bool wants(const Edge& edge) const {
    const Node* node = edge.node.get();
    if (!node || captures_.empty()) return node;
    return node->is_leaf() ? captured(*node) : node->sequence_ >= oldest_;
  }

  void contribute(const Edge& edge, Tensor gradient) {
    Node& node = *edge.node;
    Node::Output& output = node.outputs_[edge.output];
    if (!(gradient.shape() == output.shape) || gradient.dtype() != output.dtype) {
      fail(ErrorKind::internal, "backward: gradient {} {} arrived for a result {} {} of {}",
           gradient.shape(), gradient.dtype(), output.shape, output.dtype, node.name_);
    }
    queue(node);
    if (!output.gradient.defined()) {
      output.gradient = std::move(gradient);
    } else if (!output.second.defined() && !node.is_leaf() && !recording_) {
      output.second = std::move(gradient);
    } else {
      accumulate(node, output.gradient, gradient);
    }
  }

  // True when the gradient of `output` is the root's, a one that nobody has asked for yet.
  bool is_one(const Node::Output& output) const {
    return one_ == &output && !output.gradient.defined();
  }

  // Makes output.gradient the whole gradient.
  void complete(const Node& node, Node::Output& output) const {
    if (is_one(output)) {
      output.gradient = ones(output.shape, {.dtype = output.dtype, .device = output.device});
    }
    if (!output.second.defined()) return;
    accumulate(node, output.gradient, output.second);
    output.second = {};
  }

  // Memory for the gradient of `edge`, already entered as its gradient; undefined when it has one.
  Tensor place(const Edge& edge) {
    Node& node = *edge.node;
    Node::Output& output = node.outputs_[edge.output];
    if (output.gradient.defined()) return {};
    queue(node);
    if (node.is_leaf() && captures_.empty()) {
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

  bool recording() const { return recording_; }

 private:
  static bool younger_last(const Node* a, const Node* b) { return a->sequence_ < b->sequence_; }

  static void reset(Node& node) {
    node.engine_ = nullptr;
    for (Node::Output& output : node.outputs_.span()) output.gradient = output.second = {};
  }

  bool captured(const Node& node) const {
    return std::any_of(captures_.begin(), captures_.end(),
                       [&](const Capture& capture) { return capture.edge.node.get() == &node; });
  }

  // sum += term; in place when nobody else can see `sum`, or it is a leaf's own memory.
  void accumulate(const Node& node, Tensor& sum, const Tensor& term) const {
    const bool own =
        sum.exclusive() || (node.is_leaf() && sum.same(static_cast<const Leaf&>(node).slot_));
    if (own && !recording_) {
      backend_of(sum.device()).accumulate(term, sum);
    } else {
      sum = add(sum, term);
    }
  }

  void queue(Node& node) {
    if (node.engine_ == this) return;
    if (node.engine_) {
      // An outer run will come to a leaf anyway; other nodes hold that run's gradients.
      if (node.is_leaf() && captures_.empty() && node.engine_->captures_.empty()) return;
      fail(ErrorKind::usage,
           "backward: {} belongs to a graph that an outer backward() is walking. A hook or closure "
           "may only walk a graph of its own.",
           node.name_);
    }
    heap_.push_back(&node);
    std::push_heap(heap_.begin(), heap_.end(), younger_last);
    node.engine_ = this;
  }

  void step(Node& node) {
    if (node.released()) {
      fail(ErrorKind::usage,
           "backward: the graph of {} was already used and freed. Pass retain_graph to the first "
           "backward().",
           node.name_);
    }
    if (node.hooks_ || node.is_leaf() || !captures_.empty() || grad_mode.observer) {
      for (Node::Output& output : node.outputs_.span()) complete(node, output);
    }
    if (grad_mode.observer) grad_mode.observer->on_backward_begin(node);
    if (node.hooks_) run_hooks(node);
    bool onward = captures_.empty();
    if (!onward) {
      for (Capture& capture : captures_) {
        if (capture.edge.node.get() == &node) {
          capture.gradient = node.outputs_[capture.edge.output].gradient;
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
    if (!retain_) node.release();
  }

  static void run_hooks(Node& node) {
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

  bool retain_;
  bool recording_;
  std::span<Capture> captures_;
  uint64_t oldest_ = UINT64_MAX;
  const Node::Output* one_ = nullptr;
  Node* current_ = nullptr;
  std::vector<Node*> heap_;
};

// --- what a closure sees ---------------------------------------------------------------------

const Tensor& Gradients::dy(size_t output) {
  Node::Output& slot = node_->outputs_[output];
  engine_->complete(*node_, slot);
  if (!slot.gradient.defined()) {
    slot.gradient = zeros(slot.shape, {.dtype = slot.dtype, .device = slot.device});
  }
  return slot.gradient;
}

GradientParts Gradients::dy_parts(size_t output) {
  const Node::Output& slot = node_->outputs_[output];
  if (slot.second.defined()) return {slot.gradient, slot.second};
  return {dy(output), {}};
}

bool Gradients::dy_is_one(size_t output) const {
  return engine_->is_one(node_->outputs_[output]);
}

bool Gradients::has_dy(size_t output) const {
  return node_->outputs_[output].gradient.defined() || dy_is_one(output);
}

bool Gradients::needs(size_t input) const {
  return engine_->wants(node_->inputs_[input]);
}

bool Gradients::recording() const {
  return engine_->recording();
}

Tensor Gradients::target(size_t input) {
  const Edge& edge = node_->inputs_[input];
  if (Tensor placed = engine_->place(edge); placed.defined()) return placed;
  const Node::Output& output = edge.node->outputs_[edge.output];
  later_.emplace_back(input, empty(output.shape, {.dtype = output.dtype, .device = output.device}));
  return later_.back().second;
}

void Gradients::give(size_t input, Tensor gradient) {
  if (needs(input)) engine_->contribute(node_->inputs_[input], std::move(gradient));
}

void Gradients::once_only(const char* remedy) const {
  if (recording()) {
    fail(ErrorKind::usage, "{}: gradients of gradients are not available for this operator.{}{}",
         node_->name(), *remedy ? " " : "", remedy);
  }
}

void Gradients::finish() {
  for (auto& [input, gradient] : later_) give(input, std::move(gradient));
}

// --- entry points ----------------------------------------------------------------------------

namespace {

// Undefined for a one.
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
  return {};
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
  std::vector<Engine::Capture> captures;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      fail(ErrorKind::usage, "grad: an input of shape {} requires no gradient", input.shape());
    }
    captures.push_back({{input.node(), input.output_index()}, {}});
  }
  if (captures.empty()) return {};
  Engine(options, captures).run(root, root_gradient(root, options, "grad"));
  std::vector<Tensor> gradients;
  for (Engine::Capture& capture : captures) gradients.push_back(std::move(capture.gradient));
  return gradients;
}

}  // namespace whisker
