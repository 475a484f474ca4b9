// Every branch sees the same input.
#include "layers/branches.h"

#include "core/ops/ops.h"
#include "layers/memory_plan.h"
#include "layers/pool.h"

#include <algorithm>

namespace whisker {

Branches::Branches(std::vector<Branch> branches) : branches_(std::move(branches)) {
  for (const Branch& branch : branches_) add_child(branch.name, branch.layers);
}

std::string Branches::describe() const {
  return fmt::format("{} branches", branches_.size());
}

std::vector<Tensor> Branches::forward_branches(const Tensor& x, const Pass& pass) {
  std::vector<Tensor> parts;
  parts.reserve(branches_.size());
  for (const Branch& branch : branches_) parts.push_back((*branch.layers)(x, pass));
  return parts;
}

std::vector<int> Branches::add_branches_to(MemoryPlan& plan, int x) const {
  std::vector<int> parts;
  for (const Branch& branch : branches_) parts.push_back(branch.layers->add_to(plan, x));
  return parts;
}

Concat::Concat(std::vector<Branch> branches) : Branches(std::move(branches)) {
  if (this->branches().empty()) {
    fail(ErrorKind::usage, "concat: expected at least one branch, got none");
  }
}

Tensor Concat::forward(const Tensor& x, const Pass& pass) {
  return concat(forward_branches(x, pass), -1);
}

Shape Concat::output_shape(const Shape& x) const {
  Shape result = branches().front().layers->output_shape(x);
  for (size_t i = 1; i < branches().size(); ++i) {
    const Shape part = branches()[i].layers->output_shape(x);
    if (part.rank() != result.rank() || part.rank() == 0 ||
        !(part.with(-1, 1) == result.with(-1, 1))) {
      fail(ErrorKind::usage,
           "concat: branch {} gives {}, the ones before it {}; they may differ in channels only", i,
           part, result);
    }
    result = result.with(-1, result[-1] + part[-1]);
  }
  return result;
}

int Concat::add_to(MemoryPlan& plan, int x) const {
  const Shape y = output_shape(plan.shape(x));
  return plan.add(*this, add_branches_to(plan, x), y, {});
}

namespace {

/// (N,1,1,C) for values (N,C) beside an image, any other shape as it is.
Shape beside(const Shape& other, const Shape& x) {
  return other.rank() == 4 && x.rank() == 2 ? Shape{x[0], 1, 1, x[1]} : x;
}

Tensor beside(const Shape& other, const Tensor& x) {
  const Shape shape = beside(other, x.shape());
  return shape == x.shape() ? x : x.reshape(shape);
}

/// The shape of the product of two branches; nothing where they do not broadcast.
std::optional<Shape> product_shape(const Shape& first, const Shape& second) {
  const Shape a = beside(second, first), b = beside(first, second);
  Shape y = a.rank() < b.rank() ? b : a;
  for (int axis = 1; axis <= std::min(a.rank(), b.rank()); ++axis) {
    if (a[-axis] != b[-axis] && a[-axis] != 1 && b[-axis] != 1) return {};
    y = y.with(-axis, std::max(a[-axis], b[-axis]));
  }
  return y;
}

}  // namespace

Multiply::Multiply(std::vector<Branch> branches) : Branches(std::move(branches)) {
  if (this->branches().size() < 2) {
    fail(ErrorKind::usage,
         "multiply: expected at least two branches, got {}. A branch `[]` is the input itself.",
         this->branches().size());
  }
}

Sequential* Multiply::factors() const {
  if (branches().size() != 2 || branches()[0].layers->size() != 0) return nullptr;
  Sequential& second = *branches()[1].layers;
  const auto* const average =
      second.size() == 0 ? nullptr : dynamic_cast<AdaptiveAvgPool2D*>(second.layer(0).get());
  return average && average->output() == Pair(1) ? &second : nullptr;
}

Tensor Multiply::forward(const Tensor& x, const Pass& pass) {
  const std::vector<Tensor> parts = forward_branches(x, pass);
  Tensor y = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    y = beside(parts[i].shape(), y) * beside(y.shape(), parts[i]);
  }
  return y;
}

Shape Multiply::output_shape(const Shape& x) const {
  Shape result = branches().front().layers->output_shape(x);
  for (size_t i = 1; i < branches().size(); ++i) {
    const Shape part = branches()[i].layers->output_shape(x);
    const std::optional<Shape> product = product_shape(result, part);
    if (!product) {
      fail(ErrorKind::usage,
           "multiply: branch {} gives {}, the ones before it {}; expected equal extents, or 1. To "
           "scale channels, end the branch with `dense: {}`.",
           i, part, result, result.rank() > 0 ? result[-1] : 1);
    }
    result = *product;
  }
  return result;
}

int Multiply::add_to(MemoryPlan& plan, int x) const {
  output_shape(plan.shape(x));  // throws where the branches do not broadcast
  const std::vector<int> parts = add_branches_to(plan, x);
  int y = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::optional<Shape> shape = product_shape(plan.shape(y), plan.shape(parts[i]));
    const bool one_is_whole = plan.shape(y) == *shape || plan.shape(parts[i]) == *shape;
    const OperatorCost cost{.keeps_input = plan.needs_grad(parts[i]),
                            .keeps_second_input = plan.needs_grad(y),
                            // sum_products_to, or a product that is summed
                            .transient_bytes = one_is_whole ? 0 : shape->count() * element_bytes};
    y = plan.add(*this, {y, parts[i]}, *shape, cost);
  }
  return y;
}

}  // namespace whisker
