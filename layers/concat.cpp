// Every branch sees the same input; results are joined along the last axis.
#include "layers/concat.h"

#include "core/ops.h"
#include "layers/plan.h"

namespace whisker {

Concat::Concat(std::vector<Branch> branches) : branches_(std::move(branches)) {
  if (branches_.empty()) fail(ErrorKind::usage, "concat: expected at least one branch, got none");
  for (const Branch& branch : branches_) add_child(branch.name, branch.layers);
}

Tensor Concat::forward(const Tensor& x, const Pass& pass) {
  std::vector<Tensor> parts;
  parts.reserve(branches_.size());
  for (const Branch& branch : branches_) parts.push_back((*branch.layers)(x, pass));
  return concat(parts, -1);
}

std::string Concat::describe() const {
  return fmt::format("{} branches", branches_.size());
}

Shape Concat::output_shape(const Shape& x) const {
  Shape result = branches_.front().layers->output_shape(x);
  for (size_t i = 1; i < branches_.size(); ++i) {
    const Shape part = branches_[i].layers->output_shape(x);
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

int Concat::add_to(Plan& plan, int x) const {
  const Shape y = output_shape(plan.shape(x));
  std::vector<int> parts;
  for (const Branch& branch : branches_) parts.push_back(branch.layers->add_to(plan, x));
  return plan.add(*this, std::move(parts), y, {});
}

}  // namespace whisker
