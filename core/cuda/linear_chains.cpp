#include "core/cuda/linear_chains.h"

#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/product/small_chain.h"

namespace whisker::cuda {
namespace {

SmallChain chain_of(std::span<const LinearLink> links) {
  SmallChain chain{.rows = static_cast<int>(links.front().geometry.rows), .count = 0, .links = {}};
  for (const LinearLink& link : links) {
    const LinearGeometry& g = link.geometry;
    chain.links[chain.count++] = {.in = static_cast<int>(g.in),
                                  .out = static_cast<int>(g.out),
                                  .activation = g.activation,
                                  .w = pointer(link.w),
                                  .b = pointer(link.b),
                                  .y = pointer(link.y),
                                  .dz = nullptr,
                                  .dw = nullptr,
                                  .db = nullptr};
  }
  return chain;
}

}  // namespace

size_t CudaLinearChains::length(std::span<const LinearLink> links) const {
  size_t count = 0;
  for (const auto& [g, w, b, y] : links) {
    const bool small = g.rows <= SmallChain::most_rows && g.in <= SmallChain::most_features &&
                       g.out <= SmallChain::most_features;
    const bool in_packs = g.in % 8 == 0 && is_aligned(w.raw());
    if (!small || !in_packs || count == SmallChain::most_links) break;
    ++count;
  }
  return count;
}

void CudaLinearChains::forward(const Tensor& x, std::span<const LinearLink> links) {
  context_.enter();
  small_chain(context_, x.dtype(), chain_of(links), x.raw());
}

void CudaLinearChains::backward(const Tensor& x, std::span<const LinearLink> links,
                                const Tensor& dy, const Tensor& dx,
                                std::span<const LinearLinkGradients> out) {
  context_.enter();
  SmallChain chain = chain_of(links);
  bool wanted = dx.defined();
  int64_t features = 0;
  for (int i = 0; i < chain.count; ++i) {
    chain.links[i].dw = pointer(out[static_cast<size_t>(i)].dw);
    chain.links[i].db = pointer(out[static_cast<size_t>(i)].db);
    features += chain.links[i].out;
  }
  const Scratch gradients(allocator_, chain.rows * features * static_cast<int64_t>(sizeof(float)));
  auto* dz = gradients.as<float>();
  for (SmallLink& link : std::span(chain.links, static_cast<size_t>(chain.count))) {
    wanted = wanted || link.dw || link.db;
    if (!wanted) continue;
    link.dz = dz;
    dz += chain.rows * link.out;
  }
  small_chain_backward(context_, dy.dtype(), chain, pointer(x), dy.raw(), pointer(dx));
}

}  // namespace whisker::cuda
