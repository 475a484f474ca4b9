// The engine: a heap of nodes keyed by age. Every consumer of a value is younger than the value, so
// the youngest queued node always has its gradient complete. Nothing here recurses over the graph.
#include "core/autograd.h"

#include <algorithm>
#include <atomic>

#include "core/backend.h"
#include "core/ops.h"

namespace whisker {

// --- nodes -----------------------------------------------------------------------------------

Node::Node(const char* name) : name_(name) {
  static std::atomic<uint64_t> next{0};
  sequence_ = next.fetch_add(1, std::memory_order_relaxed);
}

void Node::dispose(Node* node) {
  static constinit thread_local std::vector<Node*>* dying = nullptr;
  if (dying) {
    dying->push_back(node);
    return;
  }
  std::vector<Node*> rest;
  dying = &rest;
  delete node;
  while (!rest.empty()) {
    Node* next = rest.back();
    rest.pop_back();
    delete next;
  }
  dying = nullptr;
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
  if (grad_mode.observer) grad_mode.observer->on_record(*node, outputs);
}

// --- saved tensors ---------------------------------------------------------------------------

Saved save(const Tensor& tensor) {
  Saved saved;
  if (!tensor.defined() || !grad_mode.enabled) return saved;
  saved.tensor_ = tensor;
  saved.version_ = tensor.storage()->version();
  if (grad_mode.observer) grad_mode.observer->on_save(tensor);
  return saved;
}

Saved save_output(const Tensor& tensor, uint32_t output) {
  if (!grad_mode.enabled) return {};
  Saved saved = save(tensor.detach());
  saved.own_output_ = static_cast<int32_t>(output);
  return saved;
}

Tensor Saved::operator()(const Gradients& gradients) const {
  if (!tensor_.defined()) return {};
  if (tensor_.storage()->version() != version_) {
    fail(ErrorKind::usage,
         "{}: a tensor of shape {} saved for backward was changed in place afterwards. Change a "
         "clone() of it, or call backward() first.",
         gradients.node().name(), tensor_.shape());
  }
  if (own_output_ < 0 || !gradients.recording()) return tensor_;
  const Tensor attached = tensor_.detach();
  attached.attach(Ref<Node>(&gradients.node()), static_cast<uint32_t>(own_output_));
  return attached;
}

// --- the engine ------------------------------------------------------------------------------

class Engine {
 public:
  struct Capture {
    Edge edge;
    Tensor gradient;
  };

  Engine(const BackwardOptions& options, std::vector<Capture>* captures)
      : retain_(options.retain_graph || options.create_graph),
        recording_(options.create_graph),
        captures_(captures) {}

  ~Engine() {  // something is left only when an operator threw
    if (current_) reset(*current_);
    for (Node* node : heap_) reset(*node);
  }

  void run(const Tensor& root, Tensor gradient) {
    const bool was_enabled = std::exchange(grad_mode.enabled, recording_);
    struct Restore {
      bool value;
      ~Restore() { grad_mode.enabled = value; }
    } restore{was_enabled};
    contribute({root.node(), root.output_index()}, std::move(gradient));
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), younger_last);
      current_ = heap_.back();
      heap_.pop_back();
      step(*current_);
      current_ = nullptr;
    }
  }

  void contribute(const Edge& edge, Tensor gradient) {
    Node& node = *edge.node;
    Node::Output& output = node.outputs_[edge.output];
    if (!(gradient.shape() == output.shape) || gradient.dtype() != output.dtype) {
      fail(ErrorKind::internal, "backward: gradient {} {} arrived for a result {} {} of {}",
           gradient.shape(), gradient.dtype(), output.shape, output.dtype, node.name_);
    }
    if (!output.gradient.defined()) {
      output.gradient = std::move(gradient);
    } else {
      accumulate(node, output.gradient, gradient);
    }
    queue(node);
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

  // Memory for the gradient of `edge`, already entered as its gradient; undefined when it has one.
  Tensor place(const Edge& edge) {
    Node& node = *edge.node;
    Node::Output& output = node.outputs_[edge.output];
    if (output.gradient.defined()) return {};
    if (node.is_leaf() && !captures_) {
      const auto& leaf = static_cast<const Leaf&>(node);
      if (leaf.slot_.defined() && !leaf.gradient_.defined()) output.gradient = leaf.slot_;
    }
    if (!output.gradient.defined()) {
      output.gradient = empty(output.shape, {.dtype = output.dtype, .device = output.device});
    }
    queue(node);
    return output.gradient;
  }

  bool recording() const { return recording_; }

 private:
  static bool younger_last(const Node* a, const Node* b) { return a->sequence_ < b->sequence_; }

  static void reset(Node& node) {
    node.queued_ = false;
    for (Node::Output& output : node.outputs_.span()) output.gradient = {};
  }

  void queue(Node& node) {
    if (node.queued_) return;
    node.queued_ = true;
    heap_.push_back(&node);
    std::push_heap(heap_.begin(), heap_.end(), younger_last);
  }

  void step(Node& node) {
    if (node.released()) {
      fail(ErrorKind::usage,
           "backward: the graph of {} was already used and freed. Pass retain_graph to the first "
           "backward().",
           node.name_);
    }
    if (grad_mode.observer) grad_mode.observer->on_backward_begin(node);
    if (node.hooks_) {
      for (const GradHook& hook : *node.hooks_) {
        if (Tensor replaced = hook(node.outputs_[0].gradient); replaced.defined()) {
          node.outputs_[0].gradient = std::move(replaced);
        }
      }
    }
    if (captures_) {
      for (Capture& capture : *captures_) {
        if (capture.edge.node.get() == &node) {
          capture.gradient = node.outputs_[capture.edge.output].gradient;
        }
      }
    }
    if (!(captures_ && node.is_leaf())) {
      Gradients gradients(*this, node);
      node.run(gradients);
      gradients.finish();
    }
    if (grad_mode.observer) grad_mode.observer->on_backward_end(node);
    reset(node);
    if (!retain_) node.release();
  }

  bool retain_;
  bool recording_;
  std::vector<Capture>* captures_;
  Node* current_ = nullptr;
  std::vector<Node*> heap_;
};

// --- what a closure sees ---------------------------------------------------------------------

const Tensor& Gradients::dy(size_t output) {
  Node::Output& slot = node_->outputs_[output];
  if (!slot.gradient.defined()) {
    slot.gradient = zeros(slot.shape, {.dtype = slot.dtype, .device = slot.device});
  }
  return slot.gradient;
}

bool Gradients::has_dy(size_t output) const { return node_->outputs_[output].gradient.defined(); }

bool Gradients::needs(size_t input) const { return static_cast<bool>(node_->inputs_[input].node); }

bool Gradients::recording() const { return engine_->recording(); }

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

// --- leaves ----------------------------------------------------------------------------------

Leaf::Leaf(const Tensor& value, Tensor slot) : Node("leaf"), slot_(std::move(slot)) {
  outputs_.resize(1);
  outputs_[0].shape = value.shape();
  outputs_[0].dtype = value.dtype();
  outputs_[0].device = value.device();
}

void Leaf::clear() { gradient_ = {}; }

void Leaf::run(Gradients& gradients) {
  Tensor& arrived = outputs_[0].gradient;
  if (gradient_.defined()) {
    if (gradients.recording()) {
      gradient_ = add(gradient_, arrived);
    } else {
      backend_of(gradient_.device()).accumulate(arrived, gradient_);
    }
  } else if (slot_.defined()) {
    if (!arrived.same(slot_)) slot_.copy_(arrived);
    gradient_ = slot_;
  } else if (arrived.exclusive() || gradients.recording()) {
    gradient_ = std::move(arrived);
  } else {
    gradient_ = arrived.clone();
  }
}

// --- entry points ----------------------------------------------------------------------------

namespace {

Tensor root_gradient(const Tensor& root, const BackwardOptions& options, const char* op) {
  if (!root.requires_grad()) {
    fail(ErrorKind::usage, "{}: the root has no graph: no leaf it depends on requires a gradient",
         op);
  }
  if (options.gradient.defined()) {
    if (!(options.gradient.shape() == root.shape())) {
      fail(ErrorKind::usage, "{}: gradient has shape {}, the root has {}", op,
           options.gradient.shape(), root.shape());
    }
    return options.gradient;
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
  Engine(options, nullptr).run(root, root_gradient(root, options, "backward"));
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
  Engine(options, &captures).run(root, root_gradient(root, options, "grad"));
  std::vector<Tensor> gradients;
  for (Engine::Capture& capture : captures) gradients.push_back(std::move(capture.gradient));
  return gradients;
}

}  // namespace whisker
