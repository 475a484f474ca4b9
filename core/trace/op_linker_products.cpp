// Products: matrices, dense layers, windows over images; and rows of a table.
#include "core/trace/op_linker.h"
#include "core/trace/unfused_operator.h"

#include <algorithm>
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

// Those of the convolution inside, at each window's maximum alone.
bool OpLinker::conv_max_pool() const {
  const auto unfused = unfused_operator(recording_, entry_);
  if (!unfused) return false;
  const std::vector<TapeEntry>& inside = unfused->inside.entries;
  const auto conv = std::ranges::find(inside, "conv2d", &TapeEntry::name);
  const auto pool = std::ranges::find(inside, "max_pool2d", &TapeEntry::name);
  if (conv == inside.end() || pool == inside.end()) return false;
  std::vector<std::vector<int64_t>> maximum_of(static_cast<size_t>(conv->shape().count()));
  const bool known = for_each_link(unfused->inside, *pool, [&](const OpLink& link) {
    maximum_of[static_cast<size_t>(link.operands[0])].push_back(link.element);
  });
  return known && for_each_link(unfused->inside, *conv, [&](const OpLink& link) {
           OpLink term = link;
           for (const int64_t element : maximum_of[static_cast<size_t>(link.element)]) {
             term.element = element;
             visit_(term);
           }
         });
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
