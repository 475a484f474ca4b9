// Small dense layers one behind the other: a kernel forwards and two backwards instead of one each
// way for every layer, whose launches would take longer than what they compute.
#pragma once

#include "core/cuda/gpu/context.h"
#include "core/geometry.h"

namespace whisker::cuda {

/// A layer as the kernels see it. What is not wanted is null.
struct SmallLink {
  int in, out;
  ActivationSpec activation;
  const void *w, *b;
  void* y;    ///< (rows, out)
  float* dz;  ///< (rows, out) of workspace: the gradient before the activation
  void *dw, *db;
};
/// Weights and what lies between layers begin at multiples of 16 bytes; inputs are multiples of
/// eight.
struct SmallChain {
  static constexpr int most_links = 32;
  static constexpr int most_rows = 128;
  static constexpr int most_features = 64;
  int rows, count;
  SmallLink links[most_links];
};

/// Every y that is not null, from x (rows, in of the first).
void small_chain(const Context& context, DType dtype, const SmallChain& chain, const void* x);

/// From dy of the last link, down to the first that has a dz: dz, dw and db of each; with dx, which
/// needs a dz in every link, that, too. The last y may be null without an activation.
void small_chain_backward(const Context& context, DType dtype, const SmallChain& chain,
                          const void* x, const void* dy, void* dx);

}  // namespace whisker::cuda
