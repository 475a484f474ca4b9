// The engine of backward(): a heap of nodes ordered by age. Every consumer of a value is younger
// than the value, so the youngest queued node always has its gradient complete.
#pragma once

#include "core/autograd/autograd.h"

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace whisker {

class Engine {
 public:
  /// A gradient that grad() returns.
  struct RequestedGrad {
    Edge edge;
    Tensor gradient;
  };

  Engine(const BackwardOptions& options, std::span<RequestedGrad> requested);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void run(const Tensor& root, Tensor gradient);
  /// Whether a gradient at `edge` is needed. grad() skips edges that do not lead to its inputs.
  bool wants(const Edge& edge) const;
  /// Accumulates `gradient` at `edge`. A second one may stay unsummed: Note [Unsummed gradients].
  void contribute(const Edge& edge, Tensor gradient);
  /// contribute(edge, gradient broadcast to its shape); written out where it is the first alone.
  void contribute_broadcast(const Edge& edge, const Tensor& gradient);
  /// contribute(edge, gradient * factor summed to its shape); multiplied later where
  /// Gradients::scaled_grads() may return the factor.
  void contribute_product(const Edge& edge, const Tensor& gradient, const Tensor& factor);
  /// Sums all contributions into output.gradient.
  void complete(const Node& node, Node::Output& output) const;
  /// Memory that becomes the gradient of `edge`; undefined when `edge` already has a gradient.
  Tensor grad_buffer(const Edge& edge);
  bool recording() const { return recording_; }

 private:
  bool is_requested(const Node& node) const;
  void accumulate(const Node& node, Tensor& sum, const Tensor& term) const;
  void queue(Node& node);
  void count_uses(const Node& root);
  void finish_leaves(const Node& node);
  void step(Node& node);
  static void reset(Node& node);
  static void run_hooks(Node& node);

  bool retain_;
  bool recording_;
  std::span<RequestedGrad> requested_;
  const std::function<void(const Tensor&)>& on_leaf_;
  std::unordered_map<const Node*, int> uses_;  // of a leaf by operators to come; with on_leaf_ only
  uint64_t oldest_ = UINT64_MAX;
  Node* current_ = nullptr;
  std::vector<Node*> heap_;  // the youngest on top
};

}  // namespace whisker
