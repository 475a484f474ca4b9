// Reverse-mode automatic differentiation: operators record nodes as they run; backward() visits the
// nodes from the youngest to the oldest. docs/internals/autograd.md explains it step by step,
// docs/internals/adding_an_op.md says how to add an operator.
#pragma once

#include "core/autograd/gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/saved_tensor.h"

#include <functional>
#include <span>
#include <vector>

namespace whisker {

struct BackwardOptions {
  Tensor gradient = {};       ///< of the root; ones for a one-element root when undefined
  bool retain_graph = false;  ///< keep what was saved, to run backward again
  bool create_graph = false;  ///< grad() only: record the backward pass too; implies retain_graph
  /// backward() only: given the gradient of each leaf, which it must not change, as soon as no
  /// operator will add to it; else leaves come last.
  std::function<void(const Tensor&)> on_leaf = {};
};

/// Accumulates d(root)/d(leaf) into every leaf that `root` depends on. Throws usage when root has
/// no graph, has several elements and no gradient is given, or its graph was already freed. A
/// closure or hook may call it on a graph of its own, which may share leaves with the one being
/// walked. Threads may run it, and grad(), at the same time over graphs that share leaves: each sum
/// is complete once all have returned, and its order is theirs. Throws usage for results of
/// operators that another thread's run is walking, and on a GPU where another thread runs it;
/// on_leaf needs leaves that no other run adds to.
void backward(const Tensor& root, const BackwardOptions& options = {});

/// Returns d(root)/d(input) for each input without touching any leaf; undefined where root does not
/// depend on it. With create_graph the results are on the tape and can be differentiated again.
std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs,
                         const BackwardOptions& options = {});

}  // namespace whisker
