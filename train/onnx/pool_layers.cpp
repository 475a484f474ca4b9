// Pooling layers: as ONNX has them, else as products with matrices of means.
#include "layers/layers.h"
#include "train/onnx/layer_nodes.h"

#include <algorithm>

namespace whisker::onnx_layers {
namespace {

// A row of a pooling matrix: the mean over [begin, end) of those that count, `count`.
void add_mean_row(Floats& matrix, int64_t extent, int64_t begin, int64_t end, int64_t count) {
  Floats row(static_cast<size_t>(extent), 0);
  for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, extent); ++i) {
    row[static_cast<size_t>(i)] = 1.0f / static_cast<float>(count);
  }
  matrix.insert(matrix.end(), row.begin(), row.end());
}

// Means over windows of rows and of columns: rows (h_out, h) x columns' transpose (w, w_out).
std::string add_means(const OnnxContext& context, const Module& layer, const OnnxValue& x,
                      const Floats& rows, const Floats& columns) {
  OnnxGraph& graph = context.graph;
  const int64_t h = x.shape[1], w = x.shape[2];
  const int64_t h_out = std::ssize(rows) / h, w_out = std::ssize(columns) / w;
  Floats turned(columns.size());
  for (int64_t i = 0; i < w_out; ++i) {
    for (int64_t j = 0; j < w; ++j) turned[j * w_out + i] = columns[i * w + j];
  }
  const std::string high = graph.node(
      "MatMul", {graph.constant(layer.path() + ".rows", Extents64{h_out, h}, rows), x.name});
  return graph.node("MatMul",
                    {high, graph.constant(layer.path() + ".columns", Extents64{w, w_out}, turned)});
}

std::vector<OnnxAttribute> windows_of(const Pool2dGeometry& g) {
  return {{"kernel_shape", Extents64{g.kernel_h, g.kernel_w}},
          {"strides", Extents64{g.stride_h, g.stride_w}},
          {"pads", Extents64{g.pad_top, g.pad_left,
                             end_padding(g.h, g.h_out, g.stride_h, g.kernel_h, g.pad_top),
                             end_padding(g.w, g.w_out, g.stride_w, g.kernel_w, g.pad_left)}}};
}

}  // namespace

OnnxValue add_max_pool2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const MaxPool2D&>(module);
  const Pool2dGeometry g = pool2d_geometry(PoolKind::max, x.shape, layer.options());
  return result_of(layer, x, context.graph.node("MaxPool", {x.name}, windows_of(g)));
}

OnnxValue add_avg_pool2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const AvgPool2D&>(module);
  const Pool2dGeometry g = pool2d_geometry(PoolKind::average, x.shape, layer.options());
  const bool counts = g.counted_top + g.counted_bottom + g.counted_left + g.counted_right > 0;
  if (!counts) {
    return result_of(layer, x, context.graph.node("AveragePool", {x.name}, windows_of(g)));
  }
  Floats rows, columns;
  for (int64_t i = 0; i < g.h_out; ++i) {
    const int64_t begin = i * g.stride_h - g.pad_top, end = begin + g.kernel_h;
    add_mean_row(rows, g.h, begin, end,
                 std::min(end, g.h + g.counted_bottom) - std::max(begin, -g.counted_top));
  }
  for (int64_t i = 0; i < g.w_out; ++i) {
    const int64_t begin = i * g.stride_w - g.pad_left, end = begin + g.kernel_w;
    add_mean_row(columns, g.w, begin, end,
                 std::min(end, g.w + g.counted_right) - std::max(begin, -g.counted_left));
  }
  return result_of(layer, x, add_means(context, layer, x, rows, columns));
}

// A binomial filter over the image reflected at its edges.
OnnxValue add_blur_pool2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const BlurPool2D&>(module);
  const auto [kernel, stride] = layer.options();
  Floats row = {1};
  for (int64_t i = 1; i < kernel; ++i) {
    row.push_back(0);
    for (size_t at = row.size() - 1; at > 0; --at) row[at] = (row[at] + row[at - 1]) / 2;
    row[0] /= 2;
  }
  const int64_t channels = x.shape[3], before = (kernel - 1) / 2, behind = kernel / 2;
  Floats filters;
  for (int64_t c = 0; c < channels; ++c) {
    for (const float down : row) {
      for (const float across : row) filters.push_back(down * across);
    }
  }
  OnnxGraph& graph = context.graph;
  const std::string padded =
      graph.node("Pad", {x.name, graph.integers({0, 0, before, before, 0, 0, behind, behind})},
                 {{"mode", std::string("reflect")}});
  const std::string weight =
      graph.constant(layer.path() + ".filters", Extents64{channels, 1, kernel, kernel}, filters);
  return result_of(layer, x,
                   graph.node("Conv", {padded, weight},
                              {{"kernel_shape", Extents64{kernel, kernel}},
                               {"strides", Extents64{stride, stride}},
                               {"group", channels}}));
}

OnnxValue add_adaptive_avg_pool2d(const OnnxContext& context, const Module& layer,
                                  const OnnxValue& x) {
  const Shape y = layer.output_shape(x.shape);
  const int64_t h = x.shape[1], w = x.shape[2], h_out = y[1], w_out = y[2];
  if (h == h_out && w == w_out) return x;
  if (h % h_out == 0 && w % w_out == 0) {
    const Extents64 window = {h / h_out, w / w_out};
    return {context.graph.node("AveragePool", {x.name},
                               {{"kernel_shape", window}, {"strides", window}}),
            y};
  }
  const auto means = [](int64_t extent, int64_t out) {
    Floats matrix;
    for (int64_t i = 0; i < out; ++i) {
      const int64_t begin = i * extent / out, end = ((i + 1) * extent + out - 1) / out;
      add_mean_row(matrix, extent, begin, end, end - begin);
    }
    return matrix;
  };
  return {add_means(context, layer, x, means(h, h_out), means(w, w_out)), y};
}

namespace {

OnnxValue add_global_pool2d(const char* node, const OnnxContext& context, const Module& layer,
                            const OnnxValue& x) {
  const std::string pooled = context.graph.node(node, {x.name});
  return result_of(layer, x, context.graph.node("Flatten", {pooled}, {{"axis", int64_t{1}}}));
}

}  // namespace

OnnxValue add_global_avg_pool2d(const OnnxContext& context, const Module& layer,
                                const OnnxValue& x) {
  return add_global_pool2d("GlobalAveragePool", context, layer, x);
}
OnnxValue add_global_max_pool2d(const OnnxContext& context, const Module& layer,
                                const OnnxValue& x) {
  return add_global_pool2d("GlobalMaxPool", context, layer, x);
}

}  // namespace whisker::onnx_layers
