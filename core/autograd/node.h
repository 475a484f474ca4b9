// Nodes of the graph: recorded operators and leaves.
//
// Note [Graph ownership] A result's handle owns its node; a node owns its inputs' nodes (edges
// point from younger to older, so there are no cycles) and, inside its closure, what backward
// needs. backward() drops the closures and leaves the bare nodes to their handles. Two cycles are
// possible and prevented: an operator that saves its own output keeps it out of the graph (Saved),
// and a leaf never keeps a gradient that is itself in the graph (create_graph belongs to grad()).
#pragma once

#include "core/autograd/inline_list.h"
#include "core/autograd/observer.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

class Engine;
class Gradients;

/// An input of a node: the node that produced it, and its output there. Null: needs no gradient.
struct Edge {
  Ref<Node> node;
  uint32_t output = 0;
};

using GradHook = std::function<Tensor(const Tensor&)>;

/// One recorded operator, or a leaf.
class Node : public RefCounted {
 public:
  /// One result: shape, dtype and device, and its gradient during backward.
  struct Output {
    Shape shape;
    DType dtype = DType::f32;
    Device device;
    Tensor gradient;
    Tensor unsummed;  ///< a second contribution that is not added yet: Gradients::unsummed_grads
  };

  explicit Node(const char* name);
  virtual ~Node() = default;
  /// Destroys nodes iteratively, not recursively: a graph may be a million nodes deep.
  static void dispose(Node* node);

  const char* name() const { return name_; }
  /// Increases with every node of the process, so that a node's inputs have smaller numbers.
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
  std::atomic<const Engine*> engine_{nullptr};  // the run whose gradients outputs_ holds
  Node* next_dying_ = nullptr;
  InlineList<Edge, 2> inputs_;
  InlineList<Output, 1> outputs_;
  std::unique_ptr<std::vector<GradHook>> hooks_;
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
/// allowed) from those of `outputs`. Does nothing when no input needs a gradient.
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
  /// With a defined `slot`, gradients are left in that memory (a parameter arena's slice). Without
  /// a name it is called "leaf".
  explicit Leaf(const Tensor& value, Tensor slot = {}, std::string_view name = {});
  bool is_leaf() const override { return true; }
  /// Undefined until a gradient has arrived.
  Tensor gradient() const;
  /// The next contribution overwrites. The memory of a slot stays.
  void clear();

 private:
  friend class Engine;
  friend class Gradients;
  void run(Gradients& gradients) override;
  void release() override {}
  /// The leaf's own memory, if a first contribution may overwrite it; run() or abandon() ends that.
  Tensor begin_writing();
  /// The run that began to write has failed.
  void abandon();
  void add(Tensor& term);
  void add_waiting();

  const std::string own_name_;
  const Tensor slot_;
  mutable std::mutex mutex_;  // guards all below: see Note [Threads of backward]
  Tensor gradient_;
  Tensor waiting_;        // what other threads' runs add while one writes to slot_
  bool writing_ = false;  // into slot_, by the run that engine_ names
};

}  // namespace whisker
