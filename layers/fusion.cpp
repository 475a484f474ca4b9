// The table of patterns: which layers run as one operator, and how; fusion_walk.cpp walks over it.
#include "core/backend/fused_ops.h"
#include "core/backend/normalization.h"
#include "layers/branches.h"
#include "layers/conv2d.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/fusion_pattern.h"
#include "layers/memory_plan.h"
#include "layers/pool.h"
#include "layers/residual.h"
#include "layers/sequential.h"

#include <type_traits>

namespace whisker {
namespace {

using Layers = Fusion::Layers;

template <class Layer>
Layer* layer_at(Layers layers, size_t at) {
  return at < layers.size() ? dynamic_cast<Layer*>(layers[at].module.get()) : nullptr;
}

const std::string& path_at(Layers layers, size_t at) {
  return layers[at].module->path();
}

bool has_fused_kernels(const FusionTarget& target) {
  return target.device && has_fused_kernels(*target.device);
}

// --- conv2d, dense or batch_norm, then an activation; conv2d, then max-pooling ----------------

bool can_fuse(const Conv2D& conv, ActivationSpec f) {
  return grad_from_output(f.kind) && (!conv.options().max_pool || is_monotonic(f));
}
bool can_fuse(const Dense&, ActivationSpec f) {
  return grad_from_output(f.kind);
}
bool can_fuse(const BatchNorm&, ActivationSpec f) {
  return batch_norm_computes(f, true);
}

/// Adds what follows `match` and fits into the operator of its fused layer. `fits`: an activation
/// does.
template <class Layer, class Fits>
void add_epilogue(Layers layers, FusedLayers& match, const Fits& fits) {
  auto& fused = static_cast<Layer&>(*match.fused);
  const auto take = [&](const Module& next) {
    match.notes.push_back(fmt::format("{} into {}", next.type(), fused.path()));
    ++match.count;
  };
  for (bool took = true; took;) {
    took = false;
    const auto* const next = layer_at<ActivationLayer>(layers, match.first + match.count);
    if (next && fused.options().activation.kind == Activation::none && fits(next->activation())) {
      fused.set_activation(next->activation());
      take(*next);
      took = true;
    }
    if constexpr (std::is_same_v<Layer, Conv2D>) {
      const auto* const pool = layer_at<MaxPool2D>(layers, match.first + match.count);
      if (pool && !fused.options().max_pool && is_monotonic(fused.options().activation)) {
        fused.set_max_pool(pool->options());
        take(*pool);
        took = true;
      }
    }
  }
}

/// A layer with what follows in its operator.
template <class Layer>
std::optional<FusedLayers> layer_with_epilogue(Layers layers, size_t at) {
  const auto* const layer = layer_at<Layer>(layers, at);
  if (!layer) return {};
  const auto fused = std::make_shared<Layer>(*layer, SharedParameters{});
  FusedLayers match{.first = at, .fused = fused};
  add_epilogue<Layer>(layers, match, [&](ActivationSpec f) { return can_fuse(*fused, f); });
  return match;
}

template <class Layer>
std::optional<FusedLayers> match_epilogue(Layers layers, size_t at, const FusionTarget&) {
  auto match = layer_with_epilogue<Layer>(layers, at);
  return match && match->count > 1 ? match : std::nullopt;
}

std::optional<LayerValue> run_epilogue(Layers layers, const FusedLayers& match, const LayerValue& x,
                                       const Pass& pass) {
  const TapeScope scope(path_at(layers, match.first));
  return match.fused->forward_value(x, pass);
}

std::optional<int> plan_epilogue(Layers layers, const FusedLayers& match, MemoryPlan& plan, int x) {
  const Shape input = plan.shape(x);
  return plan.add(*layers[match.first].module, {x}, match.fused->output_shape(input),
                  match.fused->cost(input, plan.needs_grad(x)), match.fused->description());
}

// --- batch_norm, then max-pooling --------------------------------------------------------------

/// A batch_norm that training fuses with the layer behind it and behind its relu.
std::optional<FusedLayers> norm_in_training(Layers layers, size_t at) {
  auto match = layer_with_epilogue<BatchNorm>(layers, at);
  if (match) match->in_training = {layer_at<BatchNorm>(layers, at)};
  return match;
}

const BatchNorm& norm_of(const FusedLayers& match) {
  return static_cast<const BatchNorm&>(*match.fused);
}

template <class Layer>
Layer& last_of(Layers layers, const FusedLayers& match) {
  return static_cast<Layer&>(*layers[match.first + match.count - 1].module);
}

/// 2x2 or 3x3 with stride 2: see pool_takes_norm().
bool may_take_norm(const Pool2dOptions& pool) {
  return (pool.kernel == 2 || pool.kernel == 3) && pool.stride.value_or(pool.kernel) == 2;
}

std::optional<FusedLayers> match_norm_pool(Layers layers, size_t at, const FusionTarget& target) {
  if (!has_fused_kernels(target)) return {};
  auto match = norm_in_training(layers, at);
  if (!match || !batch_norm_computes(norm_of(*match).options().activation, false)) return {};
  const auto* const pool = layer_at<MaxPool2D>(layers, at + match->count);
  if (!pool || !may_take_norm(pool->options())) return {};
  match->notes.push_back(fmt::format("max_pool2d into {} in training", path_at(layers, at)));
  ++match->count;
  return match;
}

std::optional<LayerValue> run_norm_pool(Layers layers, const FusedLayers& match,
                                        const LayerValue& x, const Pass& pass) {
  const BatchNormOperands norm = norm_of(match).operands(x.sums, pass);
  const auto& pool = last_of<MaxPool2D>(layers, match);
  if (!batch_norm_max_pool2d_is_fused(x.y, norm, pool.options())) return {};
  const TapeScope scope(pool.path());
  return LayerValue{.y = batch_norm_max_pool2d(x.y, norm, pool.options())};
}

// Keeps the largest elements of the windows in place of the normalised x.
std::optional<int> plan_norm_pool(Layers layers, const FusedLayers& match, MemoryPlan& plan,
                                  int x) {
  const BatchNorm& norm = norm_of(match);
  const auto& pool = last_of<MaxPool2D>(layers, match);
  const Shape normalised = norm.output_shape(plan.shape(x));
  if (!pool_takes_norm(pool2d_geometry(PoolKind::max, normalised, pool.options()))) return {};
  const Shape y = pool.output_shape(normalised);
  OperatorCost cost = norm.cost(normalised, plan.needs_grad(x));
  cost.keeps_input = plan.needs_grad(x);
  cost.keeps_output = false;
  cost.kept_elements = y.count();
  cost.kept_bytes += pool.cost(normalised, plan.needs_grad(x)).kept_bytes;
  cost.transient_bytes = y.count() * element_bytes;  // the gradient of those elements
  return plan.add(*layers[match.first].module, {x}, y, cost,
                  fmt::format("{}, max_pool2d {}", norm.description(), pool.describe()));
}

// --- batch_norm, then conv2d; conv2d, then batch_norm -------------------------------------------

/// A convolution that adds and pools nothing, nor does its operator.
Conv2D* bare_conv2d_at(Layers layers, size_t at) {
  const auto match = layer_with_epilogue<Conv2D>(layers, at);
  auto* const conv = layer_at<Conv2D>(layers, at);
  return match && match->count == 1 && conv->is_bare() ? conv : nullptr;
}

/// One that kernels fuse with norms in every type: they read packs of up to 8 channels.
Conv2D* conv2d_of_packs_at(Layers layers, size_t at) {
  Conv2D* const conv = bare_conv2d_at(layers, at);
  return conv && conv->options().in_channels % 8 == 0 ? conv : nullptr;
}

std::optional<FusedLayers> match_norm_conv(Layers layers, size_t at, const FusionTarget& target) {
  if (!has_fused_kernels(target)) return {};
  auto match = norm_in_training(layers, at);
  const Conv2D* const conv = match ? conv2d_of_packs_at(layers, at + match->count) : nullptr;
  if (!conv || !batch_norm_computes(norm_of(*match).options().activation, true)) return {};
  match->notes.push_back(fmt::format("{} into {} in training", path_at(layers, at), conv->path()));
  ++match->count;
  return match;
}

// The kernel keeps what the batch_norm reads in place of what it writes.
std::optional<int> plan_norm_conv(Layers layers, const FusedLayers& match, MemoryPlan& plan,
                                  int x) {
  const auto& conv = last_of<Conv2D>(layers, match);
  const Shape normalised = plan.shape(x);
  const Conv2dGeometry g = conv.geometry(normalised, plan.dtype());
  if (!depthwise_takes_norm(g) && !pointwise_takes_norm(g)) return {};
  const BatchNorm& norm = norm_of(match);
  OperatorCost cost = conv.cost(normalised, true);
  cost.keeps_input = true;
  cost.kept_bytes += norm.cost(normalised, plan.needs_grad(x)).kept_bytes;
  return plan.add(*layers[match.first].module, {x}, conv.output_shape(normalised), cost,
                  fmt::format("{}, conv2d {}", norm.description(), conv.describe()));
}

std::optional<LayerValue> run_norm_conv(Layers layers, const FusedLayers& match,
                                        const LayerValue& x, const Pass& pass) {
  auto& conv = last_of<Conv2D>(layers, match);
  const BatchNormOperands norm = norm_of(match).operands(x.sums, pass);
  if (!conv.takes_norm(x.y, norm)) return {};
  const TapeScope scope(conv.path());
  Convolved y = conv.forward_normalised(x.y, norm);
  return LayerValue{.y = std::move(y.y), .sums = std::move(y.sums)};
}

std::optional<FusedLayers> match_conv_sums(Layers layers, size_t at, const FusionTarget& target) {
  const auto* const norm = layer_at<BatchNorm>(layers, at + 1);
  const Conv2D* const conv = conv2d_of_packs_at(layers, at);
  if (!norm || !conv || conv->options().groups == 1 || !has_fused_kernels(target)) return {};
  return FusedLayers{.first = at, .in_training = {norm}};
}

std::optional<LayerValue> run_conv_sums(Layers layers, const FusedLayers& match,
                                        const LayerValue& x, const Pass&) {
  auto& conv = last_of<Conv2D>(layers, match);
  const TapeScope scope(conv.path());
  Convolved y = conv.forward_with_sums(x.y);
  return LayerValue{.y = std::move(y.y), .sums = std::move(y.sums)};
}

// --- batch_norm, then squeeze-and-excitation -----------------------------------------------------

Sequential* excite_at(Layers layers, size_t at) {
  const auto* const product = layer_at<Multiply>(layers, at);
  return product ? product->factors() : nullptr;
}

std::optional<FusedLayers> match_norm_excite(Layers layers, size_t at, const FusionTarget&) {
  auto match = norm_in_training(layers, at);
  if (!match || !excite_at(layers, at + match->count)) return {};
  ++match->count;
  return match;
}

std::optional<LayerValue> run_norm_excite(Layers layers, const FusedLayers& match,
                                          const LayerValue& x, const Pass& pass) {
  const BatchNormOperands norm = norm_of(match).operands(x.sums, pass);
  if (!batch_norm_excite_is_fused(x.y, norm)) return {};
  Sequential& factors = *excite_at(layers, match.first + match.count - 1);
  const auto behind_average = [&](const Tensor& average) {
    return factors.forward_range(1, factors.size(), {.y = average}, pass).y;
  };
  const TapeScope scope(path_at(layers, match.first + match.count - 1));
  return LayerValue{.y = batch_norm_excite(x.y, norm, behind_average)};
}

// --- the end of a residual: batch_norm, add, activation ------------------------------------------

/// The last of these layers when that is a batch_norm without an activation, else null.
BatchNorm* tail_of(const Sequential* layers) {
  if (!layers || layers->size() == 0) return nullptr;
  auto* const last = layer_at<BatchNorm>(layers->children(), layers->size() - 1);
  return last && last->options().activation.kind == Activation::none ? last : nullptr;
}

LayerValue body_before_tail(Residual& block, const Tensor& x, const Pass& pass) {
  return block.run_body(block.body().size() - 1, x, pass);
}

BatchNormOperands tail_operands(const Residual& block, const LayerValue& y, const Pass& pass) {
  BatchNormOperands norm = tail_of(&block.body())->operands(y.sums, pass);
  norm.options.activation = block.options().activation;
  return norm;
}

std::optional<FusedLayers> match_norm_add(Layers layers, size_t at, const FusionTarget&) {
  const auto* const block = layer_at<Residual>(layers, at);
  if (!block || !tail_of(&block->body()) ||
      !batch_norm_computes(block->options().activation, false)) {
    return {};
  }
  const std::string& name = block->path().empty() ? block->type() : block->path();
  return FusedLayers{.first = at, .notes = {fmt::format("add of {} into batch_norm", name)}};
}

std::optional<LayerValue> run_norm_add(Layers layers, const FusedLayers& match, const LayerValue& x,
                                       const Pass& pass) {
  auto& block = last_of<Residual>(layers, match);
  const TapeScope in_block(block.path());
  const Tensor shortcut = block.shortcut(x.y, pass);
  const LayerValue y = body_before_tail(block, x.y, pass);
  const BatchNormOperands norm = tail_operands(block, y, pass);
  const TapeScope scope(tail_of(&block.body())->path());
  return LayerValue{.y =
                        batch_norm(y.y, norm.gamma, norm.beta, norm.state, norm.options, shortcut)};
}

std::optional<int> plan_norm_add(Layers layers, const FusedLayers& match, MemoryPlan& plan, int x) {
  const auto& block = last_of<Residual>(layers, match);
  const BatchNorm& tail = *tail_of(&block.body());
  const Shape y = block.output_shape(plan.shape(x));
  const int shortcut = block.projection() ? block.projection()->add_to(plan, x) : x;
  const int inner = block.body().add_first_to(block.body().size() - 1, plan, x);
  OperatorCost cost = tail.cost(y, plan.needs_grad(inner));
  cost.keeps_output = block.options().activation.kind != Activation::none &&
                      (plan.needs_grad(inner) || plan.needs_grad(shortcut) || !tail.frozen());
  return plan.add(tail, {inner, shortcut}, y, cost,
                  fmt::format("{} {}", tail.description(), block.describe()));
}

// Two norms where the shortcut ends in one, too: neither result is stored.
std::optional<FusedLayers> match_add_norms(Layers layers, size_t at, const FusionTarget& target) {
  if (!has_fused_kernels(target)) return {};
  auto match = match_norm_add(layers, at, target);
  if (!match) return {};
  const auto& block = last_of<Residual>(layers, *match);
  const BatchNorm* const projected = tail_of(block.projection());
  if (!projected) return {};
  match->in_training = {tail_of(&block.body()), projected};
  match->notes.push_back(
      fmt::format("{} into {} in training", projected->path(), tail_of(&block.body())->path()));
  return match;
}

std::optional<LayerValue> run_add_norms(Layers layers, const FusedLayers& match,
                                        const LayerValue& x, const Pass& pass) {
  auto& block = last_of<Residual>(layers, match);
  const TapeScope in_block(block.path());
  Sequential& projection = *block.projection();
  const LayerValue added = projection.forward_range(0, projection.size() - 1, {.y = x.y}, pass);
  const LayerValue y = body_before_tail(block, x.y, pass);
  const TapeScope scope(tail_of(&block.body())->path());
  return LayerValue{.y = add_batch_norms(y.y, tail_operands(block, y, pass), added.y,
                                         tail_of(&projection)->operands(added.sums, pass))};
}

// --- where weights are fixed: conv2d or dense, then batch_norm; the same at a residual's end -----

// Without gradients, conv2d computes any activation.
bool can_fuse_folded(const Conv2D& conv, ActivationSpec f) {
  return !conv.options().max_pool || is_monotonic(f);
}
bool can_fuse_folded(const Dense& dense, ActivationSpec f) {
  return can_fuse(dense, f);
}

bool is_linear(const Conv2D& conv) {
  return conv.options().activation.kind == Activation::none && !conv.options().max_pool;
}
bool is_linear(const Dense& dense) {
  return dense.options().activation.kind == Activation::none;
}

/// Layer `at` and the batch_norm behind it.
template <class Layer>
std::optional<FusedLayers> layer_with_norm(Layers layers, size_t at) {
  const auto* const layer = layer_at<Layer>(layers, at);
  const auto* const norm = layer_at<BatchNorm>(layers, at + 1);
  if (!layer || !norm || !is_linear(*layer)) return {};
  const ActivationSpec f = norm->options().activation;
  if (f.kind != Activation::none && !can_fuse_folded(*layer, f)) return {};
  const auto fused = std::make_shared<Layer>(*layer, SharedParameters{});
  fused->set_activation(f);
  return FusedLayers{.first = at, .count = 2, .fused = fused, .norm = norm};
}

template <class Layer>
Layer& folded(const FusedLayers& match, DType dtype) {
  auto& layer = static_cast<Layer&>(*match.fused);
  if (match.norm && !layer.is_folded()) layer.fold(*match.norm, dtype);
  return layer;
}

template <class Layer>
std::optional<FusedLayers> match_folded_norm(Layers layers, size_t at, const FusionTarget& target) {
  if (!target.fixed_weights) return {};
  auto match = layer_with_norm<Layer>(layers, at);
  if (!match) return {};
  const auto& fused = static_cast<const Layer&>(*match->fused);
  add_epilogue<Layer>(layers, *match, [&](ActivationSpec f) { return can_fuse_folded(fused, f); });
  return match;
}

template <class Layer>
std::optional<LayerValue> run_folded_norm(Layers layers, const FusedLayers& match,
                                          const LayerValue& x, const Pass& pass) {
  if (pass.training) return {};
  const TapeScope scope(path_at(layers, match.first));
  return folded<Layer>(match, x.y.dtype()).forward_value(x, pass);
}

/// The last layer that computes in a residual's body, with its norm, when that is a conv2d.
std::optional<FusedLayers> conv_at_end(const Sequential& body) {
  const Layers layers = body.children();
  size_t end = layers.size();  // without what does nothing in evaluation
  while (end > 0 && (layer_at<DropPath>(layers, end - 1) || layer_at<Dropout>(layers, end - 1))) {
    --end;
  }
  if (end == 0) return {};
  if (const auto* const conv = layer_at<Conv2D>(layers, end - 1); conv && is_linear(*conv)) {
    const auto fused = std::make_shared<Conv2D>(*conv, SharedParameters{});
    return FusedLayers{.fused = fused, .body_layers = end - 1};
  }
  if (end == 1) return {};
  auto match = layer_with_norm<Conv2D>(layers, end - 2);
  if (!match || !is_linear(static_cast<const Conv2D&>(*match->fused))) return {};
  match->body_layers = end - 2;
  return match;
}

std::optional<FusedLayers> match_conv_add(Layers layers, size_t at, const FusionTarget& target) {
  const auto* const block = layer_at<Residual>(layers, at);
  if (!block || !target.fixed_weights || !block->body().fuses()) return {};
  auto match = conv_at_end(block->body());
  if (!match) return {};
  static_cast<Conv2D&>(*match->fused).set_activation(block->options().activation);
  match->first = at;
  match->count = 1;
  return match;
}

std::optional<LayerValue> run_conv_add(Layers layers, const FusedLayers& match, const LayerValue& x,
                                       const Pass& pass) {
  if (pass.training) return {};
  auto& block = last_of<Residual>(layers, match);
  const TapeScope in_block(block.path());
  const Tensor shortcut = block.shortcut(x.y, pass);
  const LayerValue y = block.run_body(match.body_layers, x.y, pass);
  const TapeScope scope(match.fused->path());
  auto& conv = folded<Conv2D>(match, y.y.dtype());
  return LayerValue{.y = conv.forward_add(y.y, shortcut)};
}

// The first one that matches and runs wins.
constexpr FusionPattern table[] = {
    {"folded_conv", match_folded_norm<Conv2D>, run_folded_norm<Conv2D>, nullptr},
    {"folded_dense", match_folded_norm<Dense>, run_folded_norm<Dense>, nullptr},
    {"conv_add", match_conv_add, run_conv_add, nullptr},
    {"norm_conv", match_norm_conv, run_norm_conv, plan_norm_conv},
    {"norm_pool", match_norm_pool, run_norm_pool, plan_norm_pool},
    {"norm_excite", match_norm_excite, run_norm_excite, nullptr},
    {"conv_sums", match_conv_sums, run_conv_sums, nullptr},
    {"conv_epilogue", match_epilogue<Conv2D>, run_epilogue, plan_epilogue},
    {"dense_epilogue", match_epilogue<Dense>, run_epilogue, plan_epilogue},
    {"norm_epilogue", match_epilogue<BatchNorm>, run_epilogue, plan_epilogue},
    {"add_norms", match_add_norms, run_add_norms, plan_norm_add},
    {"norm_add", match_norm_add, run_norm_add, plan_norm_add},
};

// --- without fusion: a layer, then the activation that it has as an operator of its own ----------

template <class Layer>
std::optional<FusedLayers> match_own_activation(Layers layers, size_t at, const FusionTarget&) {
  const auto* const layer = layer_at<Layer>(layers, at);
  if (!layer || layer->options().activation.kind == Activation::none) return {};
  const auto plain = std::make_shared<Layer>(*layer, SharedParameters{});
  plain->set_activation({});
  return FusedLayers{.first = at, .fused = plain};
}

template <class Layer>
ActivationLayer own_activation(Layers layers, const FusedLayers& match) {
  return ActivationLayer(layer_at<Layer>(layers, match.first)->options().activation);
}

template <class Layer>
std::optional<LayerValue> run_own_activation(Layers layers, const FusedLayers& match,
                                             const LayerValue& x, const Pass& pass) {
  const TapeScope scope(path_at(layers, match.first));
  const LayerValue z = match.fused->forward_value(x, pass);
  return LayerValue{.y = own_activation<Layer>(layers, match).forward(z.y, pass)};
}

template <class Layer>
std::optional<int> plan_own_activation(Layers layers, const FusedLayers& match, MemoryPlan& plan,
                                       int x) {
  const Module& layer = *layers[match.first].module;
  const Shape input = plan.shape(x), output = match.fused->output_shape(input);
  const int z = plan.add(layer, {x}, output, match.fused->cost(input, plan.needs_grad(x)),
                         match.fused->description());
  const ActivationLayer f = own_activation<Layer>(layers, match);
  return plan.add(layer, {z}, output, f.cost(output, plan.needs_grad(z)), f.type());
}

constexpr FusionPattern unfused_table[] = {
    {"conv_activation", match_own_activation<Conv2D>, run_own_activation<Conv2D>,
     plan_own_activation<Conv2D>},
    {"dense_activation", match_own_activation<Dense>, run_own_activation<Dense>,
     plan_own_activation<Dense>},
    {"norm_activation", match_own_activation<BatchNorm>, run_own_activation<BatchNorm>,
     plan_own_activation<BatchNorm>},
};

}  // namespace

std::span<const FusionPattern> fusion_patterns(bool fuse) {
  return fuse ? std::span<const FusionPattern>(table) : std::span(unfused_table);
}

}  // namespace whisker
