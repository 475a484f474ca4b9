// A few elements of large tensors, read while a step runs. Internal to core/trace.
#pragma once

#include "core/autograd/node.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace whisker {

/// A tensor's elements in host memory; a GPU's are copied there once one is read.
class HostElements {
 public:
  explicit HostElements(const Tensor& x) : x_(x) {}
  double at(int64_t element);

 private:
  const Tensor& x_;
  std::vector<char> copy_;
};

/// Values by element, in one block of memory: thousands are kept of an operator.
class ElementTable {
 public:
  /// The value of an element, NaN at first; and whether it is there for the first time.
  std::pair<double&, bool> emplace(int64_t element);

 private:
  struct Slot {
    int64_t element = -1;
    double value = std::numeric_limits<double>::quiet_NaN();
  };
  Slot& slot_of(int64_t element);

  size_t used_ = 0;
  std::vector<Slot> slots_;  // a power of two, of which at most half are used
};

/// The elements of a tensor that were read while it was there.
struct TensorSample {
  ElementTable values = {};
  std::optional<HostElements> live = {};
  std::vector<int64_t> missing = {};  ///< asked for too early

  double at(int64_t element);
};
using SharedTensorSample = std::shared_ptr<TensorSample>;

/// What has arrived at elements of an output so far, which the engine may not have added yet: see
/// Note [Unsummed gradients].
std::vector<double> arrived_at(const Node::Output& output, std::span<const int64_t> elements);

}  // namespace whisker
