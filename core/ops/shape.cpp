// Operators that move elements without computing: reshape and slices of axis 0 are views, the rest
// are strided copies.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/shape_index.h"
#include "core/ops/checks.h"

#include <algorithm>
#include <array>

namespace whisker {
namespace {

std::array<int64_t, Shape::max_rank> strides_of(const Shape& shape) {
  std::array<int64_t, Shape::max_rank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

// The memory of `x` under another offset and shape; a private layout is given up first.
Tensor view(const Tensor& x, int64_t offset, const Shape& shape) {
  if (x.storage()->form()) x.storage()->data();
  return Tensor(x.storage(), offset, shape, x.dtype());
}

// Copies the box `shape` between x (from `x_begin` on `axis`) and y (from `y_begin`).
void copy_box(const Shape& shape, int axis, const Tensor& x, int64_t x_begin, const Tensor& y,
              int64_t y_begin) {
  if (shape.count() == 0) return;
  const auto x_strides = strides_of(x.shape());
  const auto y_strides = strides_of(y.shape());
  CopyGeometry g;
  for (int i = 0; i < shape.rank(); ++i) {
    g.append(shape[i], x_strides[static_cast<size_t>(i)], y_strides[static_cast<size_t>(i)]);
  }
  g.source_offset = x_begin * x_strides[static_cast<size_t>(axis)];
  g.target_offset = y_begin * y_strides[static_cast<size_t>(axis)];
  backend_of(x.device()).shape_index().strided_copy(g, false, x, y);
}

// slice() off the tape.
Tensor cut(const Tensor& x, int axis, int64_t begin, int64_t end) {
  const Shape shape = x.shape().with(axis, end - begin);
  if (axis == 0) {
    const int64_t row = around(x.shape(), 0).inner;
    return view(x, x.offset() + begin * row, shape);
  }
  const Tensor y = empty(shape, x.options());
  copy_box(shape, axis, x, begin, y, 0);
  return y;
}

// dx of slice: dy inside zeros.
Tensor pad_axis(const Tensor& x, int axis, int64_t before, int64_t after) {
  std::array<std::pair<int64_t, int64_t>, Shape::max_rank> amounts{};
  amounts[static_cast<size_t>(axis)] = {before, after};
  return pad(x, {amounts.data(), static_cast<size_t>(x.rank())});
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (x.count() != shape.count()) {
    fail(ErrorKind::usage, "reshape: expected {} elements for x {}, got shape {} of {}.", x.count(),
         x.shape(), shape, shape.count());
  }
  const Tensor y = view(x, x.offset(), shape);
  record("reshape", {&x}, y,
         [x_shape = x.shape()](Gradients& g) { g.accumulate_grad(0, reshape(g.dy(), x_shape)); });
  return y;
}

Tensor transpose(const Tensor& x, const std::vector<int>& order) {
  const auto rank = static_cast<size_t>(x.rank());
  if (order.size() != rank) {
    fail(ErrorKind::usage, "transpose: expected an order of {} axes for x {}, got ({}).", rank,
         x.shape(), fmt::join(order, ","));
  }
  const auto x_strides = strides_of(x.shape());
  std::array<int64_t, Shape::max_rank> extents{};
  std::vector<int> inverse(rank, -1);
  for (size_t i = 0; i < rank; ++i) {
    const auto from = static_cast<size_t>(x.shape().normalize_axis(order[i], "transpose"));
    if (inverse[from] != -1) {
      fail(ErrorKind::usage, "transpose: axis {} appears twice in the order ({}) for x {}.",
           order[i], fmt::join(order, ","), x.shape());
    }
    inverse[from] = static_cast<int>(i);
    extents[i] = x.extent(static_cast<int>(from));
  }
  const Tensor y = empty(Shape(std::span<const int64_t>(extents.data(), rank)), x.options());
  if (y.count() > 0) {
    const auto y_strides = strides_of(y.shape());
    CopyGeometry g;
    for (size_t from, i = 0; i < rank; ++i) {
      from = static_cast<size_t>(x.shape().normalize_axis(order[i], "transpose"));
      g.append(extents[i], x_strides[from], y_strides[i]);
    }
    backend_of(x.device()).shape_index().strided_copy(g, false, x, y);
  }
  describe_op("order {}", fmt::join(order, " "));
  record("transpose", {&x}, y, [inverse = std::move(inverse)](Gradients& g) {
    g.accumulate_grad(0, transpose(g.dy(), inverse));
  });
  return y;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (x.rank() > shape.rank() || !(broadcast_shapes(x.shape(), shape, "broadcast_to") == shape)) {
    fail(ErrorKind::usage, "broadcast_to: x {} does not broadcast to {}.", x.shape(), shape);
  }
  const Tensor y = empty(shape, x.options());
  if (y.count() > 0) {
    const auto x_strides = strides_of(x.shape());
    const auto y_strides = strides_of(shape);
    const int added = shape.rank() - x.rank();
    CopyGeometry g;
    for (int i = 0; i < shape.rank(); ++i) {
      const bool repeated = i < added || x.extent(i - added) == 1;
      g.append(shape[i], repeated ? 0 : x_strides[static_cast<size_t>(i - added)],
               y_strides[static_cast<size_t>(i)]);
    }
    backend_of(x.device()).shape_index().strided_copy(g, false, x, y);
  }
  record("broadcast_to", {&x}, y,
         [x_shape = x.shape()](Gradients& g) { g.accumulate_grad(0, sum_to(g.dy(), x_shape)); });
  return y;
}

Tensor concat(std::span<const Tensor> tensors, int axis) {
  if (tensors.empty()) fail(ErrorKind::usage, "concat: expected at least one tensor, got none.");
  const Tensor& first = tensors[0];
  const int along = first.shape().normalize_axis(axis, "concat");
  std::vector<int64_t> sizes;
  std::vector<const Tensor*> inputs;
  int64_t total = 0;
  for (const Tensor& x : tensors) {
    check_alike("concat", "first", first, "x", x);
    if (x.rank() != first.rank() || !(x.shape().with(along, 0) == first.shape().with(along, 0))) {
      fail(ErrorKind::usage, "concat: shapes {} and {} differ off axis {}.", first.shape(),
           x.shape(), along);
    }
    sizes.push_back(x.extent(along));
    inputs.push_back(&x);
    if (__builtin_add_overflow(total, x.extent(along), &total)) {
      fail(ErrorKind::usage, "concat: the extents on axis {} add up to more than 2^63.", along);
    }
  }
  const Tensor y = empty(first.shape().with(along, total), first.options());
  int64_t begin = 0;
  for (const Tensor& x : tensors) {
    copy_box(x.shape(), along, x, 0, y, begin);
    begin += x.extent(along);
  }
  const Tensor* const outputs[] = {&y};
  describe_op("axis {}", along);
  record("concat", inputs, outputs, [along, sizes = std::move(sizes)](Gradients& g) {
    int64_t from = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (g.needs(i)) g.accumulate_grad(i, slice(g.dy(), along, from, from + sizes[i]));
      from += sizes[i];
    }
  });
  return y;
}

Tensor concat(std::initializer_list<Tensor> tensors, int axis) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end) {
  const int along = x.shape().normalize_axis(axis, "slice");
  const int64_t extent = x.extent(along);
  if (begin < 0 || begin > end || end > extent) {
    fail(ErrorKind::usage,
         "slice: expected 0 <= begin <= end <= {} on axis {}, got [{}, {}): x {}.", extent, along,
         begin, end, x.shape());
  }
  if (begin == 0 && end == extent) return x;
  const Tensor y = cut(x, along, begin, end);
  describe_op("axis {}, begin {}, end {}", along, begin, end);
  record("slice", {&x}, y, [along, begin, after = extent - end](Gradients& g) {
    g.accumulate_grad(0, pad_axis(g.dy(), along, begin, after));
  });
  return y;
}

std::vector<Tensor> split(const Tensor& x, std::span<const int64_t> sizes, int axis) {
  const int along = x.shape().normalize_axis(axis, "split");
  int64_t left = x.extent(along);
  for (const int64_t size : sizes) {
    if (size < 0 || size > left) {
      left = -1;
      break;
    }
    left -= size;
  }
  if (left != 0) {
    fail(ErrorKind::usage,
         "split: expected sizes of 0 or more that add up to {} on axis {}, got ({}): x {}.",
         x.extent(along), along, fmt::join(sizes, ","), x.shape());
  }
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(cut(x, along, begin, begin + size));
    begin += size;
  }
  const Tensor* const inputs[] = {&x};
  std::vector<const Tensor*> outputs;
  for (const Tensor& part : parts) outputs.push_back(&part);
  describe_op("axis {}", along);
  record("split", inputs, outputs, [along, count = parts.size()](Gradients& g) {
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < count; ++i) gradients.push_back(g.dy(i));
    g.accumulate_grad(0, concat(gradients, along));
  });
  return parts;
}

Tensor pad(const Tensor& x, std::span<const std::pair<int64_t, int64_t>> amounts, double value) {
  const auto rank = static_cast<size_t>(x.rank());
  std::array<int64_t, Shape::max_rank> extents{};
  std::array<int64_t, Shape::max_rank> before{};
  if (amounts.size() != rank) {
    fail(ErrorKind::usage, "pad: expected one (before, after) pair for each axis of x {}, got {}.",
         x.shape(), amounts.size());
  }
  bool any = false;
  for (size_t i = 0; i < rank; ++i) {
    const auto [front, back] = amounts[i];
    if (front < 0 || back < 0 || front > max_attribute || back > max_attribute) {
      fail(ErrorKind::usage, "pad: expected amounts in [0, {}], got ({},{}) on axis {} of x {}.",
           max_attribute, front, back, i, x.shape());
    }
    any = any || front > 0 || back > 0;
    before[i] = front;
    extents[i] = x.extent(static_cast<int>(i)) + front + back;
  }
  if (!any) return x;
  const Tensor y = full(Shape(std::span<const int64_t>(extents.data(), rank)), value, x.options());
  if (x.count() > 0) {
    const auto x_strides = strides_of(x.shape());
    const auto y_strides = strides_of(y.shape());
    CopyGeometry g;
    for (size_t i = 0; i < rank; ++i) {
      g.append(x.extent(static_cast<int>(i)), x_strides[i], y_strides[i]);
      g.target_offset += before[i] * y_strides[i];
    }
    backend_of(x.device()).shape_index().strided_copy(g, false, x, y);
  }
  describe_op("before {}", fmt::join(before.begin(), before.begin() + x.rank(), " "));
  record("pad", {&x}, y, [before, x_shape = x.shape()](Gradients& g) {
    Tensor dx = g.dy();
    for (int i = 0; i < x_shape.rank(); ++i) {
      const int64_t from = before[static_cast<size_t>(i)];
      dx = slice(dx, i, from, from + x_shape[i]);
    }
    g.accumulate_grad(0, dx);
  });
  return y;
}

}  // namespace whisker
