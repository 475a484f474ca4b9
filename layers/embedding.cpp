// One parameter and one operator.
#include "layers/embedding.h"

#include "core/ops/ops.h"

#include <vector>

namespace whisker {

Embedding::Embedding(const Options& options) : options_(options) {
  if (options.entries < 1 || options.features < 1) {
    fail(ErrorKind::usage, "embedding: {} entries of {} features; both must be at least 1",
         options.entries, options.features);
  }
  const Shape shape{options.entries, options.features};
  weight_ = add_parameter("weight", shape, ParameterRole::weight,
                          make_initializer(options.weight_initializer, fans_of(shape)));
}

Tensor Embedding::forward(const Tensor& x, const Pass&) {
  return embedding(weight_->value(), x);
}

std::string Embedding::describe() const {
  return fmt::format("{} of {}", options_.entries, options_.features);
}

Shape Embedding::output_shape(const Shape& x) const {
  std::vector<int64_t> extents(x.begin(), x.end());
  extents.push_back(options_.features);
  return Shape(std::span<const int64_t>(extents));
}

OperatorCost Embedding::cost(const Shape&, bool) const {
  return {.keeps_input = weight_->trainable()};
}

}  // namespace whisker
