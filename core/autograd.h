// Reverse-mode automatic differentiation: a tape of nodes, recorded as operators run, walked in
// descending order of recording by backward(). Nodes are in tape.cpp, the engine in autograd.cpp;
// docs/autograd.md walks through it, docs/adding_an_op.md says how to add an operator.
#pragma once

// Note [Graph ownership]
// A result's handle owns its node; a node owns its inputs' nodes (edges point from younger to
// older, so there are no cycles) and, inside its closure, what backward needs. backward() drops the
// closures and leaves the bare nodes to their handles. Two things could close a circle and are kept
// from it: an operator that saves its own output keeps it off the tape (Saved), and a leaf never
// keeps a gradient that is itself on the tape (create_graph belongs to grad()).

#include "core/inline_list.h"
#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

class Engine;
class Gradients;
class Node;

/// Told what the tape does on this thread: study's listings and tests hang here.
class TapeObserver {
 public:
  /// Absent inputs are undefined tensors.
  using Tensors = std::span<const Tensor* const>;

  virtual ~TapeObserver() = default;
  /// A tensor was kept for the next on_record(), or dropped by the next on_unrecorded().
  virtual void on_save(const Tensor&) {}
  virtual void on_record(const Node&, Tensors /*inputs*/, Tensors /*outputs*/) {}
  /// An operator computed, and no input wants a gradient.
  virtual void on_unrecorded(const char* /*name*/, Tensors /*inputs*/, Tensors /*outputs*/) {}
  /// What runs until the matching end belongs to the layer of this dotted name. Scopes nest.
  virtual void on_scope_begin(std::string_view /*layer*/) {}
  virtual void on_scope_end() {}
  virtual void on_backward_begin(const Node&) {}
  /// node.outputs(): the complete gradients, as they arrived or hooks left them.
  virtual void on_backward_end(const Node&) {}
};

/// The thread's gradient mode.
struct GradMode {
  bool enabled = true;
  TapeObserver* observer = nullptr;  ///< told of every record, save and backward step
};
inline constinit thread_local GradMode grad_mode;

/// Tells the thread's observer, when there is one, which layer runs while this lives.
class TapeScope {
 public:
  explicit TapeScope(std::string_view layer) : observer_(grad_mode.observer) {
    if (observer_) observer_->on_scope_begin(layer);
  }
  ~TapeScope() {
    if (observer_) observer_->on_scope_end();
  }
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  TapeObserver* observer_;
};

/// Nothing is recorded on this thread while one lives.
class NoGrad {
 public:
  NoGrad() : previous_(std::exchange(grad_mode.enabled, false)) {}
  ~NoGrad() { grad_mode.enabled = previous_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

inline bool needs_grad(const Tensor& x) {
  return grad_mode.enabled && x.defined() && x.requires_grad();
}

/// An input of a node: which output of which node it was. An empty node wants no gradient.
struct Edge {
  Ref<Node> node;
  uint32_t output = 0;
};

using GradHook = std::function<Tensor(const Tensor&)>;

/// One recorded operator, or a leaf.
class Node : public RefCounted {
 public:
  /// What is known of one result: its kind, and during backward its gradient.
  struct Output {
    Shape shape;
    DType dtype = DType::f32;
    Device device;
    Tensor gradient;
    Tensor second;  ///< a second contribution that is not added yet: Gradients::dy_parts
  };

  explicit Node(const char* name);
  virtual ~Node() = default;
  /// Nodes die one after the other, never one inside the other: chains may be a million long.
  static void dispose(Node* node);

  const char* name() const { return name_; }
  /// Grows with every node of the process: inputs are always older than what was made of them.
  uint64_t sequence() const { return sequence_; }
  virtual bool is_leaf() const { return false; }
  std::span<const Edge> inputs() const { return inputs_.span(); }
  std::span<const Output> outputs() const { return outputs_.span(); }
  /// Called with the complete gradient of output 0, which it must not change in place; a defined
  /// result of the same shape and dtype replaces it.
  void add_hook(GradHook hook);

 protected:
  friend class Engine;
  friend class Gradients;
  friend class Recorder;
  virtual void run(Gradients& gradients) = 0;
  /// Drops what was saved for backward.
  virtual void release() = 0;
  virtual bool released() const { return false; }

  const char* name_;
  uint64_t sequence_;
  const Engine* engine_ = nullptr;  // the run that has this node in its heap
  Node* next_dying_ = nullptr;
  InlineList<Edge, 2> inputs_;
  InlineList<Output, 1> outputs_;
  std::unique_ptr<std::vector<GradHook>> hooks_;
};

/// A tensor kept for backward: remembers the version it was saved at, and throws usage, naming the
/// op, when it was changed in place since. An op's own output is kept off the tape (a cycle
/// otherwise) and re-attached while its node runs.
class Saved {
 public:
  Saved() = default;
  Tensor operator()(const Gradients& gradients) const;
  bool defined() const { return tensor_.defined(); }

 private:
  friend Saved save(const Tensor& tensor);
  friend Saved save_output(const Tensor& tensor, uint32_t output);
  Tensor tensor_;
  uint64_t version_ = 0;
  int32_t own_output_ = -1;
};

Saved save(const Tensor& tensor);
/// An empty Saved unless `wanted`: what no gradient needs is not kept.
inline Saved save_if(bool wanted, const Tensor& tensor) {
  return wanted ? save(tensor) : Saved();
}
Saved save_output(const Tensor& tensor, uint32_t output = 0);

/// A gradient as the sum of two tensors; without the second, the first alone.
struct GradientParts {
  Tensor first, second;
};

/// What a backward closure sees: the gradients that arrive and where to leave its own.
class Gradients {
 public:
  /// Gradient of output `output`; zeros when nothing flowed there.
  const Tensor& dy(size_t output = 0);
  /// The same where two consumers' contributions need not be added first: for a backend that reads
  /// both in the pass that it makes anyway.
  GradientParts dy_parts(size_t output = 0);
  /// True for the root of a backward() that was given no gradient, until dy() makes the one.
  bool dy_is_one(size_t output = 0) const;
  bool has_dy(size_t output) const;
  bool needs(size_t input) const;
  /// Memory to overwrite, before the next give(), with the gradient of `input`: a leaf's own memory
  /// at its first contribution. Once per input, only for a needed one, never under recording().
  Tensor target(size_t input);
  /// target(), or an undefined tensor when `input` wants no gradient.
  Tensor target_if_needed(size_t input) { return needs(input) ? target(input) : Tensor(); }
  /// Adds a finished gradient of `input`; ignored when that is not needed.
  void give(size_t input, Tensor gradient);
  /// True under create_graph: the closure must give() results of recorded ops.
  bool recording() const;
  /// Throws usage under create_graph: this op cannot be differentiated twice; `remedy` says what
  /// can.
  void once_only(const char* remedy = "") const;
  Node& node() const { return *node_; }

 private:
  friend class Engine;
  Gradients(Engine& engine, Node& node) : engine_(&engine), node_(&node) {}
  void finish();

  Engine* engine_;
  Node* node_;
  // Targets of inputs that already had a gradient: added once the closure is done.
  std::vector<std::pair<size_t, Tensor>> later_;
};

/// Attaches edges and outputs to a new node; the part of record() that needs no template.
class Recorder {
 public:
  static void finish(Ref<Node> node, std::span<const Tensor* const> inputs,
                     std::span<const Tensor* const> outputs);
};

template <class Closure>
class ClosureNode final : public Node {
 public:
  ClosureNode(const char* name, Closure&& closure) : Node(name), closure_(std::move(closure)) {}

 private:
  void run(Gradients& gradients) override { (*closure_)(gradients); }
  void release() override { closure_.reset(); }
  bool released() const override { return !closure_; }
  std::optional<Closure> closure_;
};

/// Records an operator: `closure(Gradients&)` computes the gradients of `inputs` (undefined tensors
/// allowed) from those of `outputs`. Does nothing when no input wants a gradient.
template <class Closure>
void record(const char* name, std::span<const Tensor* const> inputs,
            std::span<const Tensor* const> outputs, Closure closure) {
  for (const Tensor* input : inputs) {
    if (!needs_grad(*input)) continue;
    Recorder::finish(Ref<Node>(new ClosureNode<Closure>(name, std::move(closure))), inputs,
                     outputs);
    return;
  }
  if (grad_mode.observer) grad_mode.observer->on_unrecorded(name, inputs, outputs);
}

template <class Closure>
void record(const char* name, std::initializer_list<const Tensor*> inputs, const Tensor& output,
            Closure closure) {
  const Tensor* const outputs[] = {&output};
  record(name, std::span<const Tensor* const>(inputs.begin(), inputs.size()), outputs,
         std::move(closure));
}

/// A tensor that gradients accumulate into.
class Leaf final : public Node {
 public:
  /// With a defined `slot`, gradients are left in that memory (a parameter arena's slice).
  explicit Leaf(const Tensor& value, Tensor slot = {});
  bool is_leaf() const override { return true; }
  /// Undefined until a gradient has arrived.
  const Tensor& gradient() const { return gradient_; }
  /// The next contribution overwrites. The memory of a slot stays.
  void clear();

 private:
  friend class Engine;
  friend class Gradients;
  void run(Gradients& gradients) override;
  void release() override {}
  Tensor slot_;
  Tensor gradient_;
};

struct BackwardOptions {
  Tensor gradient = {};       ///< of the root; ones for a one-element root when undefined
  bool retain_graph = false;  ///< keep what was saved, to run backward again
  bool create_graph = false;  ///< grad() only: record the backward pass too; implies retain_graph
};

/// Accumulates d(root)/d(leaf) into every leaf that `root` depends on. Throws usage when root has
/// no graph, has several elements and no gradient is given, or its graph was already freed. A
/// closure or hook may call it on a graph of its own, which may share leaves with the one being
/// walked.
void backward(const Tensor& root, const BackwardOptions& options = {});

/// Returns d(root)/d(input) for each input without touching any leaf; undefined where root does not
/// depend on it. With create_graph the results are on the tape and can be differentiated again.
std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs,
                         const BackwardOptions& options = {});

}  // namespace whisker
