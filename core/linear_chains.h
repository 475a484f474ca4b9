// Small dense layers one behind the other as one operator, for backends that have kernels for it:
// Backend::linear_chains(). docs/cuda.md, "Small dense layers", says when.
#pragma once

#include "core/geometry.h"
#include "core/tensor.h"

#include <cstddef>
#include <span>

namespace whisker {

/// One layer of a chain. Its x is the y before it, or the chain's.
struct LinearLink {
  LinearGeometry geometry;
  Tensor w, b;  ///< (out, in); (out), undefined unless geometry.bias
  Tensor y;     ///< (rows, out); undefined where nobody reads it again
};

/// A layer's gradients; undefined ones are not wanted.
struct LinearLinkGradients {
  Tensor dw, db;
};

class LinearChains {
 public:
  virtual ~LinearChains() = default;

  /// How many of the links, from the first one, the methods below take at once. Here none has a y.
  virtual size_t length(std::span<const LinearLink> links) const = 0;
  /// y of every link, from x (rows, in of the first).
  virtual void forward(const Tensor& x, std::span<const LinearLink> links) = 0;
  /// What is wanted of dx and `out`, a link's each, from dy of the last link. x, w and y are
  /// undefined where nothing that is wanted needs them.
  virtual void backward(const Tensor& x, std::span<const LinearLink> links, const Tensor& dy,
                        const Tensor& dx, std::span<const LinearLinkGradients> out) = 0;
};

}  // namespace whisker
