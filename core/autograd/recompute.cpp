// The operators that forward records the first time are dropped with what they keep: one node
// stands for them, whose backward records them anew.
#include "core/autograd/recompute.h"

#include "core/autograd/engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace whisker {
namespace {

class OnTape {
 public:
  OnTape() : previous_(std::exchange(grad_mode.enabled, true)) {}
  ~OnTape() { grad_mode.enabled = previous_; }
  OnTape(const OnTape&) = delete;
  OnTape& operator=(const OnTape&) = delete;

 private:
  bool previous_;
};

}  // namespace

Tensor recompute(std::string_view layer, RecomputedForward forward, const Tensor& x,
                 std::span<const Tensor> parameters) {
  const TapeScope scope(layer);
  const Tensor whole = forward(x, false);
  if (!needs_grad(whole)) return whole;
  std::vector<const Tensor*> inputs = {&x};
  for (const Tensor& parameter : parameters) inputs.push_back(&parameter);
  if (std::ranges::none_of(inputs, [](const Tensor* input) { return needs_grad(*input); })) {
    fail(ErrorKind::usage,
         "recompute: the result of '{}' needs a gradient, but neither x nor one of the {} "
         "parameters does. Pass every leaf that it reads.",
         layer, parameters.size());
  }
  const bool computes = std::ranges::none_of(inputs, [&](const Tensor* input) {
    return needs_grad(*input) && input->node().get() == whole.node().get();
  });
  if (!computes) return whole;
  const Tensor y = whole.detach();
  std::vector<Saved> kept;
  for (const Tensor* input : inputs) kept.push_back(save(*input));
  const Tensor* const outputs[] = {&y};
  record("recompute", inputs, outputs,
         [kept = std::move(kept), forward = std::move(forward),
          name = std::string(layer)](Gradients& g) {
           for (const Saved& one : kept) one(g);
           const OnTape on_tape;
           const TapeScope again(name);
           Engine::running().continue_at(g.node(), forward(kept[0](g), true));
         });
  return y;
}

}  // namespace whisker
