// Products: matrices, dense layers, windows over images; and rows of a table.
#include "core/trace/op_linker.h"
#include "core/trace/rule_table.h"
#include "core/trace/term_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace whisker {

bool OpLinker::matmul() const {
  if (!shapes_[0] || !shapes_[1] || y_.rank() < 2) return false;
  const Shape &a = *shapes_[0], &b = *shapes_[1];
  if (a.rank() < 2 || b.rank() < 2 || a.rank() > y_.rank() || b.rank() > y_.rank()) return false;
  const std::vector<double> transposed = entry_.attribute("transpose");
  const auto is_transposed = [&](double operand) {
    return std::find(transposed.begin(), transposed.end(), operand) != transposed.end();
  };
  const bool a_turned = is_transposed(0), b_turned = is_transposed(1);
  const int64_t m = y_[-2], n = y_[-1], k = a[a_turned ? -2 : -1];
  if (a[a_turned ? -1 : -2] != m || b[b_turned ? -1 : -2] != k || b[b_turned ? -2 : -1] != n) {
    return false;
  }
  const Shape batches(y_.extents().first(static_cast<size_t>(y_.rank() - 2)));
  std::array<std::vector<int64_t>, 2> strides;
  for (size_t i = 0; i < 2; ++i) {
    const Shape& shape = *shapes_[i];
    const Shape own(shape.extents().first(static_cast<size_t>(shape.rank() - 2)));
    for (int axis = 1; axis <= own.rank(); ++axis) {
      if (own[-axis] != 1 && own[-axis] != batches[-axis]) return false;
    }
    strides[i] = strides_over(own, true);
    strides[i].insert(strides[i].begin(), static_cast<size_t>(batches.rank() - own.rank()), 0);
  }
  for_each_position(batches, [&](int64_t batch, const ElementPosition& position) {
    int64_t a_begin = 0, b_begin = 0;
    for (size_t axis = 0; axis < strides[0].size(); ++axis) {
      a_begin += strides[0][axis] * position[axis] * m * k;
      b_begin += strides[1][axis] * position[axis] * k * n;
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t t = 0; t < k; ++t) {
          visit_({.element = (batch * m + i) * n + j,
                  .operands = {a_begin + (a_turned ? t * m + i : i * k + t),
                               b_begin + (b_turned ? j * k + t : t * n + j), -1, -1}});
        }
      }
    }
  });
  return true;
}

bool OpLinker::linear() const {
  if (!shapes_[0] || !shapes_[1] || shapes_[1]->rank() != 2) return false;
  const int64_t out = (*shapes_[1])[0], in = (*shapes_[1])[1];
  if (out * in == 0 || y_.count() % out != 0) return false;
  const int64_t rows = y_.count() / out;
  if (shapes_[0]->count() != rows * in || (shapes_[2] && shapes_[2]->count() != out)) return false;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < out; ++j) {
      for (int64_t t = 0; t < in; ++t) {
        visit_({.element = i * out + j, .operands = {i * in + t, j * in + t, -1, -1}});
      }
      if (shapes_[2]) visit_({.element = i * out + j, .operands = {-1, -1, j, -1}});
    }
  }
  return true;
}

bool OpLinker::windows(Windows kind) const {
  const bool pooling = kind != Windows::convolve;
  const auto pair = [&](std::string_view name, int64_t low) {
    return integers(name, 2, low, most_recorded_values);
  };
  const std::vector<int64_t> kernel = pair("kernel", 1), stride = pair("stride", 1),
                             padding = pair("padding", 0),
                             dilation = pooling ? std::vector<int64_t>{1, 1} : pair("dilation", 1);
  if (kernel.empty() || stride.empty() || padding.empty() || dilation.empty()) return false;
  if (!shapes_[0] || shapes_[0]->rank() != 4 || y_.rank() != 4) return false;
  const Shape& x = *shapes_[0];
  const TapeOutput* const input = operand_at(recording_, entry_, 0);
  if (x[0] != y_[0] || y_.count() == 0) return false;
  int64_t per_group = 1, filters = 1;
  if (pooling) {
    if (x[3] != y_[3] || input->value.all.empty()) return false;
  } else {
    const std::vector<int64_t> groups = integers("groups", 1, 1, most_recorded_values);
    if (groups.empty() || !shapes_[1] || shapes_[1]->rank() != 4 || y_[3] % groups[0] != 0) {
      return false;
    }
    per_group = x[3] / groups[0];
    filters = y_[3] / groups[0];
    if (!(*shapes_[1] == Shape{y_[3], kernel[0], kernel[1], per_group}) ||
        per_group * groups[0] != x[3] || (shapes_[2] && shapes_[2]->count() != y_[3])) {
      return false;
    }
  }
  // The part of the kernel, [first, second), that lies within x where a window begins at `start`.
  const auto within = [&](size_t axis, int64_t start) {
    const int64_t step = dilation[axis], extent = x[static_cast<int>(axis) + 1];
    return std::pair(start < 0 ? (-start + step - 1) / step : 0,
                     std::min(kernel[axis], (extent - start + step - 1) / step));
  };
  for_each_position(y_, [&](int64_t element, const ElementPosition& at) {
    OpLink best{.element = element};
    const int64_t top = at[1] * stride[0] - padding[0], left = at[2] * stride[1] - padding[1];
    const auto [first_row, end_row] = within(0, top);
    const auto [first_column, end_column] = within(1, left);
    for (int64_t r = first_row; r < end_row; ++r) {
      const int64_t row = top + r * dilation[0];
      for (int64_t s = first_column; s < end_column; ++s) {
        const int64_t column = left + s * dilation[1];
        const int64_t pixel = ((at[0] * x[1] + row) * x[2] + column) * x[3];
        if (pooling) {
          const int64_t candidate = pixel + at[3];
          if (kind == Windows::average) {
            visit_({.element = element, .operands = {candidate, -1, -1, -1}});
            continue;
          }
          const auto value = [&](int64_t i) { return input->value.all[static_cast<size_t>(i)]; };
          if (best.operands[0] < 0 || value(candidate) > value(best.operands[0])) {
            best.operands[0] = candidate;
          }
          continue;
        }
        for (int64_t c = 0; c < per_group; ++c) {
          visit_({.element = element,
                  .operands = {pixel + at[3] / filters * per_group + c,
                               ((at[3] * kernel[0] + r) * kernel[1] + s) * per_group + c, -1, -1}});
        }
      }
    }
    if (pooling && best.operands[0] >= 0) visit_(best);
    if (!pooling && shapes_[2]) visit_({.element = element, .operands = {-1, -1, at[3], -1}});
  });
  return true;
}

// Through the convolution's result and its activation, which are computed here: known only where
// their maxima are what the operator gave.
bool OpLinker::conv_max_pool() const {
  constexpr std::string_view then = ", max_pool2d, ";
  const size_t split = entry_.attributes.find(then);
  if (split == std::string::npos || y_.rank() != 4 || !shapes_[0] || shapes_[0]->rank() != 4) {
    return false;
  }
  TapeEntry conv = entry_, pool = entry_;
  conv.attributes.resize(split);
  pool.attributes.erase(0, split + then.size());
  Shape z_shape = shapes_[0]->with(3, y_[-1]);
  for (const int axis : {0, 1}) {
    const auto number = [&](std::string_view name) {
      const std::vector<double> numbers = conv.attribute(name);
      const size_t i = static_cast<size_t>(axis);
      const bool sound = numbers.size() == 2 && numbers[i] >= 0 && numbers[i] <= 4096;
      return sound ? static_cast<int64_t>(numbers[i]) : -1;
    };
    const int64_t kernel = number("kernel"), stride = number("stride"),
                  dilation = number("dilation");
    const int64_t free = z_shape[axis + 1] + 2 * number("padding") - dilation * (kernel - 1) - 1;
    if (kernel < 1 || stride < 1 || dilation < 1 || number("padding") < 0 || free < 0) return false;
    z_shape = z_shape.with(axis + 1, free / stride + 1);
  }
  if (z_shape.count() > most_recorded_values) return false;
  conv.outputs = {{.shape = z_shape, .dtype = entry_.dtype()}};
  std::vector<double>& z = conv.outputs[0].value.all;
  z.resize(static_cast<size_t>(z_shape.count()));
  const auto operand = [&](size_t position, const OpLink& link) {
    const std::vector<double>& all = operand_at(recording_, entry_, position)->value.all;
    const auto i = static_cast<size_t>(link.operands[position]);
    return i < all.size() ? all[i] : std::numeric_limits<double>::quiet_NaN();
  };
  const Visit sum = [&](const OpLink& link) {
    z[static_cast<size_t>(link.element)] +=
        link.operands[0] < 0 ? operand(2, link) : operand(0, link) * operand(1, link);
  };
  if (!OpLinker(recording_, conv, sum).windows(Windows::convolve)) return false;

  Recording inside{.title = {}, .entries = {conv}};
  pool.inputs.assign(1, {});
  if (const std::string_view activation = fused_activation(conv); !activation.empty()) {
    const OpRule* const rule = find_rule(activation);
    TapeEntry active{.name = std::string(activation), .attributes = conv.attributes};
    active.inputs.assign(1, {});
    active.outputs = conv.outputs;
    const TermNumbers numbers(inside, active, *rule);
    const Formula f = parse_formula({.what = "rule", .text = std::string(rule->forward_term)});
    for (size_t i = 0; i < z.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      active.outputs[0].value.all[i] =
          numbers.evaluate(f, {.element = at, .operands = {at, -1, -1, -1}});
    }
    inside.entries.push_back(active);
    pool.inputs[0].entry = 1;
  }
  const std::vector<double>& values = inside.entries.back().outputs[0].value.all;
  const std::vector<double>& results = entry_.outputs[0].value.all;
  const double tolerance = entry_.dtype() == DType::f64   ? 1e-9
                           : entry_.dtype() == DType::f32 ? 1e-4
                                                          : 3e-2;
  bool agree = true;
  std::vector<std::vector<int64_t>> maximum_of(z.size());  // results
  const Visit pick = [&](const OpLink& link) {
    const auto at = static_cast<size_t>(link.operands[0]),
               element = static_cast<size_t>(link.element);
    maximum_of[at].push_back(link.element);
    agree = agree && element < results.size() &&
            std::abs(values[at] - results[element]) <= tolerance * (1 + std::abs(values[at]));
  };
  if (!OpLinker(inside, pool, pick).windows(Windows::maximum) || !agree) return false;
  const Visit through = [&](const OpLink& link) {
    OpLink term = link;
    for (const int64_t element : maximum_of[static_cast<size_t>(link.element)]) {
      term.element = element;
      visit_(term);
    }
  };
  return OpLinker(recording_, conv, through).windows(Windows::convolve);
}

bool OpLinker::embedding() const {
  if (!shapes_[0] || shapes_[0]->rank() != 2 || entry_.saved.empty()) return false;
  const int64_t rows = (*shapes_[0])[0], features = (*shapes_[0])[1];
  const std::vector<double>& index = entry_.saved[0].value.all;
  if (static_cast<int64_t>(index.size()) * features != y_.count()) return false;
  for (const double one : index) {
    if (!(one >= 0 && one < static_cast<double>(rows))) return false;
  }
  for (int64_t i = 0; i < y_.count(); ++i) {
    const auto row = static_cast<int64_t>(index[static_cast<size_t>(i / features)]);
    visit_({.element = i, .operands = {row * features + i % features, -1, -1, -1}});
  }
  return true;
}

}  // namespace whisker
