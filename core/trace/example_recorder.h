// Examples of operators with large tensors, whose values are gone once their step is over: made
// while the step runs. Internal to core/trace.
#pragma once

#include "core/autograd/node.h"
#include "core/tensor/tensor.h"
#include "core/trace/recording.h"

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace whisker {

class ExampleRecorder {
 public:
  /// Tensors of more elements are large.
  explicit ExampleRecorder(int64_t large_above);
  ~ExampleRecorder();

  /// For entries[index], which has just run: sets its example where it has large tensors, keeps
  /// the few numbers of what `kept` for backward and of operands that the examples of its gradients
  /// will need. `inputs` as recorded, by position.
  void on_forward(std::vector<TapeEntry>& entries, size_t index,
                  std::span<const Tensor* const> inputs, std::span<const Tensor* const> outputs,
                  std::span<const Tensor> kept);
  /// Its gradients have arrived at `node`, and are recorded where they are small.
  void on_backward_begin(const TapeEntry& entry, size_t index, const Node& node);
  /// It has given gradients to its operands, of which had_gradient[position] had one before: sets
  /// their examples.
  void on_backward_end(TapeEntry& entry, size_t index, const Node& node,
                       const std::vector<bool>& had_gradient);

 private:
  struct Pending;
  void keep_factors(const TapeEntry& excite, const Tensor& factors);

  int64_t large_above_;
  std::unordered_map<size_t, std::unique_ptr<Pending>> pending_;  // by entry
};

}  // namespace whisker
