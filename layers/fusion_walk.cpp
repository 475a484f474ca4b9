// The walk over the table of fusion.cpp: layers matched once, run and planned pattern by pattern,
// and recomputed layers, which run by themselves.
#include "core/autograd/recompute.h"
#include "core/backend/recurrent_operands.h"
#include "layers/batch_norm.h"
#include "layers/fusion_pattern.h"
#include "layers/memory_plan.h"
#include "layers/recomputed_blocks.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

bool applies(const FusedLayers& match, size_t end, const Pass& pass) {
  return match.first + match.count <= end &&
         std::ranges::all_of(match.in_training, [&](const BatchNorm* norm) {
           return !norm || norm->uses_batch(pass);
         });
}

// Such a layer runs by itself.
bool has_recomputed(Fusion::Layers layers) {
  return std::ranges::any_of(layers,
                             [](const Module::Child& child) { return child.module->recomputes(); });
}

const Pass training{.training = true};

}  // namespace

Fusion::Fusion(Layers layers, const FusionTarget& target)
    : layers_(layers), target_(target), matches_(layers.size()) {
  for (size_t at = 0; at < layers.size(); ++at) {
    for (const FusionPattern& pattern : fusion_patterns(target.fuse)) {
      auto match = pattern.match(layers, at, target);
      if (!match || has_recomputed(layers.subspan(at + 1, match->count - 1))) continue;
      match->pattern = &pattern;
      matches_[at].push_back(std::move(*match));
    }
  }
}

LayerValue Fusion::forward(size_t begin, size_t end, LayerValue x, const Pass& pass) const {
  for (size_t at = begin; at < end;) {
    if (pass.training && layers_[at].module->recomputes()) {
      x = {.y = recompute_at(at, x.y, pass)};
      ++at;
    } else {
      at += forward_at(at, end, x, pass);
    }
  }
  return x;
}

size_t Fusion::forward_at(size_t at, size_t end, LayerValue& x, const Pass& pass) const {
  for (const FusedLayers& match : matches_[at]) {
    if (!applies(match, end, pass)) continue;
    std::optional<LayerValue> y = match.pattern->forward(layers_, match, x, pass);
    if (!y) continue;
    x = std::move(*y);
    return match.count;
  }
  const TapeScope scope(layers_[at].module->path());
  x = layers_[at].module->forward_value(x, pass);
  return 1;
}

// The second time, recurrent layers begin with the states of the first time, and leave none.
Tensor Fusion::recompute_at(size_t at, const Tensor& x, const Pass& pass) const {
  std::vector<Tensor> values;
  for (const auto& parameter : layers_[at].module->parameters()) {
    values.push_back(parameter->value());
  }
  const auto forward = [this, at, pass, before = pass.states ? *pass.states : CarriedStates()](
                           const Tensor& input, bool again) {
    CarriedStates states = before;
    Pass own = pass;
    if (again && pass.states) own.states = &states;
    LayerValue value{.y = input};
    forward_at(at, at + 1, value, own);
    return value.y;
  };
  return recompute(layers_[at].module->path(), forward, x, values);
}

int Fusion::add_to(MemoryPlan& plan, size_t end, int x) const {
  for (size_t at = 0; at < end;) {
    const Module& layer = *layers_[at].module;
    if (!layer.recomputes() && !(plan.recomputes() && is_block(layer))) {
      at += add_at(plan, at, end, x);
      continue;
    }
    const size_t first = plan.operators().size();
    at += add_at(plan, at, end, x);
    plan.add_recomputed(first);
  }
  return x;
}

size_t Fusion::add_at(MemoryPlan& plan, size_t at, size_t end, int& x) const {
  for (const FusedLayers& match : matches_[at]) {
    if (!match.pattern->plan || !applies(match, end, training)) continue;
    const std::optional<int> y = match.pattern->plan(layers_, match, plan, x);
    if (!y) continue;
    plan.add_notes(match.notes);
    x = *y;
    return match.count;
  }
  x = layers_[at].module->add_to(plan, x);
  return 1;
}

}  // namespace whisker
