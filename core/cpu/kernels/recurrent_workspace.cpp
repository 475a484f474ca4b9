// Follows recurrent.cpp, recurrent_forward.cpp and recurrent_backward.cpp: what they allocate at
// once stands in one sum here.
#include "core/cpu/kernels/recurrent_cell.h"
#include "core/cpu/support/rows.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

constexpr int64_t wide = sizeof(float);

class RecurrentWorkspace {
 public:
  RecurrentWorkspace(const RecurrentGeometry& g,
                     const std::function<int64_t(const Gemm&)>& large_gemm_bytes)
      : g_(g), gemm_bytes_(large_gemm_bytes) {}

  int64_t forward() const {
    int64_t most = 0;
    for (int64_t layer = 0; layer < g_.layers; ++layer) {
      const Gemm gates{.size = {positions_, rows_, g_.inputs(layer)},
                       .a = {},
                       .b = {.is_transposed = true},
                       .c = {.stride = rows_}};
      const int64_t cells = g_.directions * CellForwardScratch(g_).elements();
      most = std::max(most, (cells + dropped_below(layer)) * wide + gemm_bytes_(gates));
    }
    return most + (narrow_ ? (operands() + results_ + states()) * wide : 0);
  }

  int64_t backward(bool dy, bool dx, bool dw) const {
    int64_t most = 0;
    int64_t gradients = 0;  // f32 stand-ins, which come with their layer
    for (int64_t layer = g_.layers - 1; layer >= 0; --layer) {
      if (narrow_ && dw) gradients += parameters(layer);
      if (narrow_ && dx && layer == 0) gradients += sequences_;
      int64_t elements = gradients + g_.directions * CellBackwardScratch(g_).elements();
      elements += layer == 0 && g_.lengths ? sequences_ : dropped_below(layer);
      if (layer > 0) elements += results_;              // its dx
      if (layer + 1 < g_.layers) elements += results_;  // that of the layer above
      most = std::max(most, elements * wide + finish(layer, layer > 0 || dx, dw));
    }
    most += states() * wide;
    if (!narrow_) return most;
    most += (operands() + results_ + (dy ? results_ : g_.cells() * g_.batch * g_.output())) * wide;
    // dx in bf16, a result, comes when all this is given up.
    return most - (dx ? sequences_ * static_cast<int64_t>(size_of(g_.dtype)) : 0);
  }

 private:
  /// The last states, or their gradients.
  int64_t states() const {
    return g_.cells() * g_.batch * (g_.output() + (g_.is_lstm() ? g_.hidden : 0));
  }
  /// Elements of a layer's parameters.
  int64_t parameters(int64_t layer) const {
    return g_.directions * (rows_ * (g_.inputs(layer) + g_.output() + (g_.bias ? 2 : 0)) +
                            g_.projection * g_.hidden);
  }
  /// x and all parameters.
  int64_t operands() const {
    int64_t total = sequences_;
    for (int64_t layer = 0; layer < g_.layers; ++layer) total += parameters(layer);
    return total;
  }
  int64_t dropped_below(int64_t layer) const { return layer > 0 && g_.dropout > 0 ? results_ : 0; }

  /// CellBackward::finish().
  int64_t finish(int64_t layer, bool dx, bool dw) const {
    const int64_t inputs = g_.inputs(layer);
    int64_t most = 0;
    const auto add = [&](int64_t m, int64_t n, int64_t k, bool a_is_transposed) {
      const Gemm call{
          .size = {m, n, k}, .a = {.is_transposed = a_is_transposed}, .b = {}, .c = {.stride = n}};
      most = std::max(most, gemm_bytes_(call));
    };
    if (dx) add(positions_, inputs, rows_, false);
    if (!dw) return most;
    add(rows_, inputs, positions_, true);
    const int64_t before = positions_ - g_.batch;  // states before a step
    const int64_t added = g_.kind == RecurrentKind::gru ? 2 * g_.hidden : rows_;
    if (before > 0) add(added, g_.output(), before, true);
    if (g_.projection > 0) add(g_.projection, g_.hidden, positions_, true);
    if (!g_.bias) return most;
    const int64_t columns = padded_row(rows_);
    return std::max(most, columns * wide + column_sums_bytes(positions_, columns));
  }

  const RecurrentGeometry& g_;
  const std::function<int64_t(const Gemm&)>& gemm_bytes_;
  const bool narrow_ = g_.dtype != DType::f32;
  const int64_t positions_ = g_.steps * g_.batch;                     // T N
  const int64_t sequences_ = positions_ * g_.features;                // elements of x
  const int64_t rows_ = g_.gates() * g_.hidden;                       // of W_ih and W_hh
  const int64_t results_ = positions_ * g_.directions * g_.output();  // a layer's
};

}  // namespace

KernelWorkspace recurrent_workspace(const RecurrentGeometry& g, bool dy, bool dx, bool dw,
                                    const std::function<int64_t(const Gemm&)>& large_gemm_bytes) {
  const RecurrentWorkspace workspace(g, large_gemm_bytes);
  return {.forward = workspace.forward(), .backward = workspace.backward(dy, dx, dw)};
}

}  // namespace whisker::cpu
