#include "core/trace/operator_parts.h"

#include "core/io/text.h"
#include "core/trace/local_example.h"

#include <algorithm>
#include <numeric>

namespace whisker {
namespace {

OperatorPart part_of(const Shape& whole, int64_t first_row, int64_t rows,
                     const std::vector<int64_t>& columns) {
  OperatorPart part{.shape = whole.with(-1, std::ssize(columns)), .elements = {}};
  if (rows * whole[-1] < whole.count()) part.shape = part.shape.with(0, 1);
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    for (const int64_t column : columns) part.elements.push_back(row * whole[-1] + column);
  }
  return part;
}
std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> all(static_cast<size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

}  // namespace

std::string no_example(const std::string& name, const std::string& why) {
  return fmt::format("no example of {}: {}", name, why);
}
std::string too_many(const char* what, int64_t count) {
  return fmt::format("{} {} values, more than {}; a smaller --batch-size has fewer", what,
                     grouped(count), grouped(static_cast<int64_t>(most_example_terms)));
}

OperatorParts parts_of(const TapeEntry& entry, std::span<const Tensor* const> inputs,
                       std::span<const Tensor* const> outputs) {
  constexpr int64_t most_products = int64_t{1} << 25;
  OperatorParts parts;
  const auto each = [&](const auto& part) {
    for (const TapeInput& input : entry.inputs) {
      parts.operands.push_back(part(inputs[input.position]->shape(), true));
    }
    for (const Tensor* output : outputs) parts.results.push_back(part(output->shape(), false));
  };
  if (entry.name == "attention") {
    const std::vector<double> heads = entry.attribute("heads");
    const Shape& y = outputs[0]->shape();
    if (heads.empty() || y.rank() != 3) {
      parts.why_not = "its heads are not known";
      return parts;
    }
    const int64_t width = y[-1] / static_cast<int64_t>(heads[0]);
    each([&](const Shape& shape, bool is_operand) {  // the first head of the first example
      std::vector<int64_t> columns;
      for (int64_t third = 0; third < (is_operand ? 3 : 1); ++third) {
        for (const int64_t i : range(0, width)) columns.push_back(third * y[-1] + i);
      }
      return part_of(shape, 0, shape[1], columns);
    });
  } else if (entry.name == "add_batch_norms" || entry.name == "batch_norm_max_pool2d" ||
             entry.name == "batch_norm_squeeze") {
    const Shape& x = inputs[0]->shape();
    if (x.count() / x[-1] > static_cast<int64_t>(most_example_terms)) {
      parts.why_not = too_many("mean and variance are those of", x.count() / x[-1]);
      return parts;
    }
    each([&](const Shape& shape, bool) {
      return part_of(shape, 0, shape.count() / shape[-1], {x[-1] / 2});
    });
  } else {
    int64_t products = 0;
    const Shape& x = inputs[0]->shape();
    for (const TapeInput& input : entry.inputs) {
      const Shape& shape = inputs[input.position]->shape();
      if (input.position >= 3 && shape.rank() == 2) products += x.count() / x[-1] * shape.count();
    }
    if (entry.name != "recurrent") {
      parts.why_not = "its sums go through several operators";
    } else if (products > most_products) {
      parts.why_not = fmt::format(
          "to run its cells again takes {} products, more than {}; --cells shows each of them",
          grouped(products), grouped(most_products));
    } else {
      each([](const Shape& shape, bool) {
        return part_of(shape, 0, shape.count() / shape[-1], range(0, shape[-1]));
      });
    }
  }
  return parts;
}

}  // namespace whisker
