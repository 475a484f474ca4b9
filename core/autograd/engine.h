// The engine of backward(): a heap of nodes ordered by age. Every consumer of a value is younger
// than the value, so the youngest queued node always has its gradient complete.
//
// Note [Threads of backward] The threads of a process may run backward at the same time over graphs
// that share leaves. A node's outputs hold the gradients of one run, which claims the node by
// engine_. A run that comes to a leaf of another thread's run keeps its gradient in apart_. Each
// run adds to the leaf's sum under the leaf's lock. A parameter's first gradient is written
// straight into its memory, without the lock: what other runs add meanwhile waits in the leaf.
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
  /// Sums all contributions into output.gradient.
  void complete(const Node& node, Node::Output& output) const;
  /// Memory that becomes the gradient of `edge`; undefined when `edge` already has a gradient.
  Tensor grad_buffer(const Edge& edge);
  bool recording() const { return recording_; }

  /// The run whose closure this thread is in.
  static Engine& running();
  /// From the closure of `node`, which has recorded `y` in place of its result: the run goes on
  /// with y's graph, which gets the gradient of `node`. That graph runs once.
  void continue_at(const Node& node, const Tensor& y);

 private:
  bool is_requested(const Node& node) const;
  void accumulate(const Node& node, Tensor& sum, const Tensor& term) const;
  /// The outputs of `node` as this run has them, once claim() returned.
  Node::Output* outputs_of(Node& node);
  bool holds(const Node& node) const;
  /// Whether `run` is this thread's, and around this one.
  bool is_inside(const Engine* run) const;
  /// Queues the node of `edge`; returns where its gradient is collected.
  Node::Output& claim(const Edge& edge);
  void queue(Node& node);
  void count_uses(const Node& root, uint64_t since);
  void finish_leaves(const Node& node);
  void step(Node& node);
  void reset(Node& node);
  static void run_hooks(Node& node, Tensor& gradient);

  Engine* outer_;  // the run that a closure or hook started this one in
  bool retain_;
  bool recording_;
  std::span<RequestedGrad> requested_;
  const std::function<void(const Tensor&)>& on_leaf_;
  std::unordered_map<const Node*, int> uses_;  // of a leaf by operators to come; with on_leaf_ only
  std::unordered_map<const Node*, Node::Output> apart_;  // leaves that another run has claimed
  uint64_t oldest_ = UINT64_MAX;
  uint64_t newest_ = UINT64_MAX;      // of the root; what closures recorded since is newer
  std::vector<Ref<Node>> continued_;  // owns that
  Node* current_ = nullptr;
  std::vector<Node*> heap_;  // the youngest on top
};

}  // namespace whisker
