// What the backward closure of an operator reads and writes.
//
// Note [Unsummed gradients] A value that two operators read gets two gradients. The engine adds
// them when a closure asks for dy(). A fused kernel that reads both asks for unsummed_grads()
// instead, which saves a pass over memory. The engine always adds more than two gradients, those of
// a leaf, those under create_graph, and those that a hook or grad() reads; an observer adds itself.
#pragma once

#include "core/autograd/node.h"
#include "core/backend/unsummed_grads.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace whisker {

class Engine;

/// Argument of a backward closure: gradients of the outputs, and where those of the inputs go.
class Gradients {
 public:
  /// Gradient of output `output`; zeros when nothing flowed there.
  const Tensor& dy(size_t output = 0);
  /// Like dy(), but two contributions may be unsummed: see Note [Unsummed gradients].
  UnsummedGrads unsummed_grads(size_t output = 0);
  bool has_dy(size_t output) const;
  bool needs(size_t input) const;
  /// Memory for the gradient of `input`, to be overwritten before the next accumulate_grad(); a
  /// leaf's own memory at its first contribution. Call it once per needed input, never under
  /// recording().
  Tensor grad_buffer(size_t input);
  /// grad_buffer(), or an undefined tensor when `input` needs no gradient.
  Tensor grad_buffer_if_needed(size_t input) {
    return needs(input) ? grad_buffer(input) : Tensor();
  }
  /// Adds a finished gradient of `input`; ignored when that is not needed.
  void accumulate_grad(size_t input, Tensor gradient);
  /// accumulate_grad() of `gradient` broadcast to the shape of `input`, which is not written out
  /// where there is a gradient to add it to.
  void accumulate_broadcast_grad(size_t input, const Tensor& gradient);
  /// True under create_graph: the closure must accumulate_grad() results of recorded ops.
  bool recording() const;
  /// Throws usage under create_graph: this op cannot be differentiated twice; `remedy` says what
  /// can.
  void no_double_backward(const char* remedy = "") const;
  Node& node() const { return *node_; }

 private:
  friend class Engine;
  friend class Leaf;
  Gradients(Engine& engine, Node& node, Node::Output* outputs)
      : engine_(&engine), node_(&node), outputs_(outputs) {}
  void finish();

  Engine* engine_;
  Node* node_;
  Node::Output* outputs_;  // the node's, as this run has them
  // Targets of inputs that already had a gradient: added once the closure is done.
  std::vector<std::pair<size_t, Tensor>> later_;
};

}  // namespace whisker
