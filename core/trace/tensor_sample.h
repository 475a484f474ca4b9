// A few elements of large tensors, read while a step runs. Internal to core/trace.
#pragma once

#include "core/autograd/node.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
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

/// The elements of a tensor that were read while it was there.
struct TensorSample {
  std::unordered_map<int64_t, double> values = {};
  std::optional<HostElements> live = {};
  std::vector<int64_t> missing = {};  ///< asked for too early

  double at(int64_t element);
};
using SharedTensorSample = std::shared_ptr<TensorSample>;

/// Rounds as the engine does: f32 at least, then the dtype.
double rounded(DType dtype, double value);
/// What has arrived at elements of an output so far, which the engine may not have added yet: see
/// Note [Unsummed gradients].
std::vector<double> arrived_at(const Node::Output& output, std::span<const int64_t> elements);

}  // namespace whisker
