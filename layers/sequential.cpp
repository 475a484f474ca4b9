// A loop over the children.
#include "layers/sequential.h"

#include "core/autograd.h"
#include "core/pooled_batch_norms.h"
#include "layers/batch_norm.h"
#include "layers/conv2d.h"
#include "layers/dense.h"
#include "layers/plan.h"
#include "layers/pool.h"
#include "layers/residual.h"

#include <algorithm>

namespace whisker {
namespace {

/// A batch_norm and the max-pooling behind it as one operator in training, which keeps the winners
/// of the windows instead of the normalised x.
int add_pooled_norm(const BatchNorm& norm, const MaxPool2D& pool, Plan& plan, int x) {
  const Shape normalised = norm.output_shape(plan.shape(x));
  const Shape y = pool.output_shape(normalised);
  OperatorCost cost = norm.cost(normalised, plan.needs_grad(x));
  cost.keeps_input = plan.needs_grad(x);
  cost.keeps_output = false;
  cost.kept_elements = y.count();
  cost.kept_bytes += pool.cost(normalised, plan.needs_grad(x)).kept_bytes;
  cost.transient_bytes = y.count() * element_bytes;  // the winners' gradient
  return plan.add(norm, {x}, y, cost);
}

}  // namespace

void Sequential::add_named(const std::string& name, std::shared_ptr<Module> module) {
  links_.push_back({.convolution = dynamic_cast<Conv2D*>(module.get()),
                    .norm = dynamic_cast<BatchNorm*>(module.get()),
                    .block = dynamic_cast<Residual*>(module.get()),
                    .dense = dynamic_cast<Dense*>(module.get()),
                    .pool = dynamic_cast<MaxPool2D*>(module.get())});
  add_child(name, std::move(module));
}

Tensor Sequential::forward(const Tensor& x, const Pass& pass) {
  return forward_range(0, size(), {.y = x}, pass).y;
}

Conv2D* Sequential::partner_of(size_t index, size_t end, const Convolved& x,
                               const Pass& pass) const {
  const BatchNorm* const norm = norm_at(index);
  if (!fuse_ || !norm || !norm->uses_batch(pass) || index + 1 >= end) return nullptr;
  Conv2D* const next = links_[index + 1].convolution;
  const ActivationSpec activation = norm->options().activation;
  if (!next || activation.kind != Activation::relu) return nullptr;
  return next->takes_norm(x.y, norm->operands(x.sums, activation, pass)) ? next : nullptr;
}

MaxPool2D* Sequential::pool_behind_norm(size_t index, size_t end) const {
  return fuse_ && norm_at(index) && index + 1 < end ? links_[index + 1].pool : nullptr;
}

std::vector<LinearOperands> Sequential::dense_chain(size_t index, size_t end,
                                                    const Tensor& x) const {
  std::vector<LinearOperands> layers;
  for (size_t i = index; fuse_ && i < end && links_[i].dense; ++i) {
    layers.push_back(links_[i].dense->operands());
    if (layers.size() == 2 && linear_chain_length(x, layers) < 2) break;
  }
  layers.resize(linear_chain_length(x, layers));
  return layers;
}

Convolved Sequential::forward_range(size_t begin, size_t end, const Convolved& x,
                                    const Pass& pass) {
  Convolved y = x;
  Convolved begun;  // the first convolution of the block at hand, where the one before has it done
  for (size_t i = begin; i < end; ++i) {
    BatchNorm* const norm = links_[i].norm;
    if (Residual* const block = links_[i].block) {
      const Residual* const next = fuse_ && i + 1 < end ? links_[i + 1].block : nullptr;
      const TapeScope scope(block->path());
      BlockEnd result = block->forward_between({.y = y.y, .convolved = begun}, next, pass);
      y = {.y = std::move(result.y)};
      begun = std::move(result.convolved);
      continue;
    }
    if (Conv2D* const partner = partner_of(i, end, y, pass)) {
      const TapeScope scope(partner->path());
      y = partner->forward_normalised(y.y,
                                      norm->operands(y.sums, norm->options().activation, pass));
      ++i;
      continue;
    }
    if (const MaxPool2D* const pool = pool_behind_norm(i, end)) {
      const BatchNormOperands operands = norm->operands(y.sums, norm->options().activation, pass);
      if (batch_norm_max_pool2d_is_joint(y.y, operands, pool->options())) {
        const TapeScope scope(pool->path());
        y = {.y = batch_norm_max_pool2d(y.y, operands, pool->options())};
        ++i;
        continue;
      }
    }
    if (const auto chain = dense_chain(i, end, y.y); chain.size() > 1) {
      const std::string& first = layer(i)->path();
      i += chain.size() - 1;
      const TapeScope scope(grad_mode.observer ? fmt::format("{} to {}", first, layer(i)->path())
                                               : std::string());
      y = {.y = linear_chain(y.y, chain)};
      continue;
    }
    const BatchNorm* const next = norm_at(i + 1);
    const TapeScope scope(layer(i)->path());
    if (norm) {
      y = {.y = norm->forward_add(y, {}, norm->options().activation, pass)};
    } else if (fuse_ && links_[i].convolution && next && next->uses_batch(pass)) {
      y = links_[i].convolution->forward_with_sums(y.y);
    } else {
      y = {.y = layer(i)->forward(y.y, pass)};
    }
  }
  return y;
}

MaxPool2D* Sequential::planned_pool(size_t index, size_t end, const Plan& plan, int x) const {
  MaxPool2D* const pool = pool_behind_norm(index, end);
  const bool joins =
      pool && plan.device() && has_pooled_batch_norms(*plan.device()) &&
      !norm_at(index)->frozen() && BatchNorm::fuses(norm_at(index)->options().activation) &&
      takes_batch_norm(pool2d_geometry(PoolKind::max, plan.shape(x), pool->options()));
  return joins ? pool : nullptr;
}

Shape Sequential::output_shape(const Shape& x) const {
  Shape y = x;
  for (const Child& child : children()) y = child.module->output_shape(y);
  return y;
}

int Sequential::add_to(Plan& plan, int x) const {
  return add_first_to(size(), plan, x);
}

int Sequential::add_first_to(size_t count, Plan& plan, int x) const {
  for (size_t i = 0; i < count; ++i) {
    if (const MaxPool2D* const pool = planned_pool(i, count, plan, x)) {
      x = add_pooled_norm(*norm_at(i), *pool, plan, x);
      ++i;
    } else {
      x = layer(i)->add_to(plan, x);
    }
  }
  return x;
}

std::string Sequential::default_name(const std::string& type) const {
  std::string name = type;
  const auto taken = [&] {
    return std::any_of(children().begin(), children().end(),
                       [&](const Child& child) { return child.name == name; });
  };
  for (int number = 1; taken(); ++number) name = fmt::format("{}_{}", type, number);
  return name;
}

}  // namespace whisker
