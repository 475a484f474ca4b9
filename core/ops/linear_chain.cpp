// Dense layers one behind the other, as one operator where the device has kernels for that.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/linear_chains.h"
#include "core/ops.h"
#include "core/ops/checks.h"

#include <vector>

namespace whisker {
namespace {

// Whether linear would take them; what it would not, it is left to say.
bool fits(const Tensor& x, int64_t features, const LinearOperands& layer) {
  const auto alike = [&](const Tensor& t) {
    return t.dtype() == x.dtype() && t.device() == x.device();
  };
  const auto& [w, b, f] = layer;
  return derivable_from_output(f.kind) && w.defined() && w.rank() == 2 && w.count() > 0 &&
         alike(w) && w.extent(1) == features &&
         (!b.defined() || (b.shape() == Shape{w.extent(0)} && alike(b)));
}

// The layers as links without results, up to the first that does not fit.
std::vector<LinearLink> links_of(const Tensor& x, std::span<const LinearOperands> layers) {
  std::vector<LinearLink> links;
  int64_t features = x.extent(-1);
  for (const LinearOperands& layer : layers) {
    if (!fits(x, features, layer)) break;
    const LinearGeometry geometry{.rows = x.count() / x.extent(-1),
                                  .in = features,
                                  .out = layer.w.extent(0),
                                  .bias = layer.b.defined(),
                                  .activation = layer.activation,
                                  .dtype = x.dtype()};
    links.push_back({.geometry = geometry, .w = layer.w, .b = layer.b, .y = {}});
    features = geometry.out;
  }
  return links;
}

// Those that are one operator.
std::vector<LinearLink> joint_links_of(const Tensor& x, std::span<const LinearOperands> layers) {
  const LinearChains* const chains = backend_of(x.device()).linear_chains();
  const bool takes =
      chains && x.rank() > 0 && x.count() > 0 && computes_in(x.device().kind, x.dtype());
  if (!takes) return {};
  std::vector<LinearLink> links = links_of(x, layers);
  links.resize(chains->length(links));
  return links;
}

// A link as backward finds it again. The last result is the operator's own output.
struct SavedLink {
  LinearGeometry geometry;
  Saved w, y;
};

}  // namespace

size_t linear_chain_length(const Tensor& x, std::span<const LinearOperands> layers) {
  return joint_links_of(x, layers).size();
}

Tensor linear_chain(const Tensor& x, std::span<const LinearOperands> layers) {
  std::vector<LinearLink> links = joint_links_of(x, layers);
  if (layers.size() < 2 || links.size() < layers.size()) {
    Tensor y = x;
    for (const auto& [w, b, f] : layers) y = linear(y, w, b, f);
    return y;
  }
  std::vector<const Tensor*> inputs = {&x};
  bool needs = needs_grad(x);
  for (const LinearOperands& layer : layers) {
    for (const Tensor* const input : {&layer.w, &layer.b}) {
      inputs.push_back(input);
      needs = needs || needs_grad(*input);
    }
  }
  for (LinearLink& link : links) {
    if (!needs && &link != &links.back()) continue;  // nobody reads it again
    link.y = empty(x.shape().with(-1, link.geometry.out), x.options());
  }
  backend_of(x.device()).linear_chains()->forward(x, links);
  const Tensor y = links.back().y;
  std::vector<SavedLink> saved;
  bool flows = needs_grad(x);  // a gradient goes on to what is below the link
  for (size_t l = 0; l < links.size(); ++l) {
    const LinearLink& link = links[l];
    if (l > 0) saved[l - 1].y = save_if(flows || needs_grad(link.w), links[l - 1].y);
    saved.push_back({link.geometry, save_if(flows, link.w), {}});
    flows = flows || needs_grad(link.w) || needs_grad(link.b);
  }
  const bool active = links.back().geometry.activation.kind != Activation::none;
  if (active) saved.back().y = save_output(y);
  const Tensor* const outputs[] = {&y};
  record("linear_chain", inputs, outputs,
         [x = save_if(needs_grad(layers.front().w), x), saved = std::move(saved)](Gradients& g) {
           g.once_only("Use fuse: false to differentiate it twice.");
           const Tensor dx = g.target_if_needed(0);
           std::vector<LinearLink> of;
           std::vector<LinearLinkGradients> out;
           for (const SavedLink& link : saved) {
             of.push_back({.geometry = link.geometry, .w = link.w(g), .b = {}, .y = link.y(g)});
             const size_t input = 2 * out.size() + 1;
             out.push_back({.dw = g.target_if_needed(input), .db = g.target_if_needed(input + 1)});
           }
           const Tensor& dy = g.dy();
           backend_of(dy.device()).linear_chains()->backward(x(g), of, dy, dx, out);
         });
  return y;
}

}  // namespace whisker
