// Means its parts, so that the joint operator can be held to its definition without a GPU: what it
// does not keep for backward is not there.
#include "core/reference/linear_chains.h"

#include "core/backend.h"

#include <algorithm>

namespace whisker {

size_t ReferenceLinearChains::length(std::span<const LinearLink> links) const {
  constexpr int64_t most = 64;
  const auto large = [](const LinearLink& link) {
    return link.geometry.in > most || link.geometry.out > most;
  };
  return static_cast<size_t>(std::ranges::find_if(links, large) - links.begin());
}

void ReferenceLinearChains::forward(const Tensor& x, std::span<const LinearLink> links) {
  Tensor in = x;
  for (const auto& [geometry, w, b, y] : links) {
    const Tensor result = y.defined() ? y
                                      : empty({geometry.rows, geometry.out},
                                              {.dtype = x.dtype(), .device = x.device()});
    backend_.linear(geometry, in, w, b, result);
    in = result;
  }
}

void ReferenceLinearChains::backward(const Tensor& x, std::span<const LinearLink> links,
                                     const Tensor& dy, const Tensor& dx,
                                     std::span<const LinearLinkGradients> out) {
  size_t first = 0;  // the lowest link of which something is wanted
  while (!dx.defined() && !out[first].dw.defined() && !out[first].db.defined()) ++first;
  Tensor gradient = dy;
  for (size_t l = links.size(); l-- > first;) {
    const auto& [geometry, w, b, y] = links[l];
    const auto& [dw, db] = out[l];
    const bool active = geometry.activation.kind != Activation::none;
    const bool goes_on = l > first;
    const Tensor below =
        goes_on ? empty({geometry.rows, geometry.in}, {.dtype = dy.dtype(), .device = dy.device()})
                : dx;
    const Tensor in = l > 0 ? links[l - 1].y : x;
    backend_.linear_backward(geometry, dw.defined() ? in : Tensor(), below.defined() ? w : Tensor(),
                             active ? y : Tensor(), gradient, below, dw, db);
    gradient = below;
  }
}

}  // namespace whisker
