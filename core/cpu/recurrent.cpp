// Recurrent layers: where a call's memory lies, and the loop over layers and directions around the
// cells (recurrent_cell.h). In bf16 operands are widened once per call, states and gates stay f32,
// and the gemms over all steps are the CPU's own bf16 where it has it.
#include "core/backend/recurrent.h"

#include "core/backend/elementwise.h"
#include "core/cpu/cpu_kernels.h"
#include "core/cpu/kernels/recurrent_cell.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"

#include <algorithm>
#include <deque>
#include <functional>

namespace whisker::cpu {
namespace {

// Elements of f32 that a call keeps, one part after the other: per cell gates, side and m (see
// CellMemory), then the results of all layers but the last. Memory that backward does not need is
// reused by later layers.
struct KeptLayout {
  KeptLayout(const RecurrentGeometry& g, bool for_backward) {
    const int64_t positions = g.steps * g.batch, states = positions * g.hidden;
    const bool has_side = g.is_lstm() || g.kind == RecurrentKind::gru;
    side_begin = g.gates() * states;
    m_begin = side_begin + (has_side ? states : 0);
    per_cell = m_begin + (g.projection > 0 ? states : 0);
    per_result = positions * g.directions * g.output();
    cells = for_backward ? g.cells() : g.directions;
    results = for_backward ? g.layers - 1 : std::min<int64_t>(g.layers - 1, 2);
  }
  int64_t gates(int64_t cell) const { return cell % cells * per_cell; }
  int64_t side(int64_t cell) const { return gates(cell) + side_begin; }
  int64_t m(int64_t cell) const { return gates(cell) + m_begin; }
  int64_t y(int64_t layer) const { return cells * per_cell + layer % results * per_result; }
  int64_t elements() const { return cells * per_cell + results * per_result; }

  int64_t side_begin, m_begin, per_cell, per_result;
  int64_t cells, results;  // with memory of their own
};

// Rows of one cell in (cells, N, extent).
template <class T>
T* of_cell(T* states, const RecurrentGeometry& g, int64_t cell, int64_t extent) {
  return states ? states + cell * g.batch * extent : nullptr;
}

Tensor workspace(const Shape& shape) {
  const MemoryScope scope(MemoryCategory::workspace);
  return empty(shape);
}

// One call, forward or backward.
class Call {
 public:
  Call(Backend& backend, const RecurrentGeometry& g, const RecurrentInputs& in,
       const RecurrentOutputs& out, bool for_backward)
      : backend_(backend), g_(g), in_(in), out_(out), layout_(g, for_backward) {
    kept_ = out.reserve.defined() ? Tensor(out.reserve.storage(), out.reserve.offset() / 4,
                                           {layout_.elements()}, DType::f32)
                                  : workspace({layout_.elements()});
  }

  int64_t width() const { return g_.directions * g_.output(); }

  /// The result of `layer` (T, N, width).
  Tensor result(int64_t layer) const {
    if (layer + 1 == g_.layers) return out_.y;
    return {kept_.storage(),
            kept_.offset() + layout_.y(layer),
            {g_.steps, g_.batch, width()},
            DType::f32};
  }

  /// What `layer` reads (T, N, inputs).
  Tensor input(int64_t layer) const {
    if (layer == 0) return in_.x;
    const Tensor y = result(layer - 1);
    if (g_.dropout == 0) return y;
    const Tensor dropped = workspace(y.shape());
    drop(y, dropped, layer - 1);
    return dropped;
  }

  /// The mask on the result of `layer`; y may be x.
  void drop(const Tensor& x, const Tensor& y, int64_t layer) const {
    backend_.elementwise().dropout(g_.dropout, recurrent_mask_key(in_.key, layer), x, y);
  }

  CellMemory memory(int64_t cell, const Tensor& x) const {
    const int64_t layer = cell / g_.directions;
    float* kept = f32(kept_);
    return {.x = f32(x),
            .inputs = g_.inputs(layer),
            .p = in_.parameters[static_cast<size_t>(cell)].map(f32_or_null),
            .h0 = of_cell(f32_or_null(in_.initial.h), g_, cell, g_.output()),
            .c0 = of_cell(f32_or_null(in_.initial.c), g_, cell, g_.hidden),
            .lengths = in_.lengths.defined() ? in_.lengths.data<int64_t>().data() : nullptr,
            .gates = kept + layout_.gates(cell),
            .side = kept + layout_.side(cell),
            .m = g_.projection > 0 ? kept + layout_.m(cell) : nullptr,
            .y = f32(result(layer)) + cell % g_.directions * g_.output()};
  }

 private:
  Backend& backend_;
  const RecurrentGeometry& g_;
  const RecurrentInputs& in_;
  const RecurrentOutputs& out_;
  KeptLayout layout_;
  Tensor kept_;  // f32, laid out by layout_
};

// Runs the cells of a layer over all sequences: each thread takes some through all steps when there
// are enough for one gemm per thread, else the threads split each step.
template <class Cells>
void run_cells(const RecurrentGeometry& g, Cells& cells) {
  constexpr int64_t rows_per_thread = 8;
  const int64_t rows = g.directions * g.batch;
  const bool small = g.steps * rows * g.gates() * g.hidden < pointwise_grain;
  if (small || rows < rows_per_thread * most_threads()) {
    for (auto& cell : cells) cell.run(0, g.batch);
    return;
  }
  parallel_ranges(rows, 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t direction = 0; direction < g.directions; ++direction) {
      const int64_t first = std::max(begin - direction * g.batch, int64_t{0});
      const int64_t last = std::min(end - direction * g.batch, g.batch);
      if (first < last) cells[static_cast<size_t>(direction)].run(first, last);
    }
  });
}

// A copy of x (T, N, features) with zeros after each sequence's end.
Tensor without_padding(const RecurrentGeometry& g, const Tensor& x, const int64_t* lengths) {
  const Tensor clean = workspace(x.shape());
  const float* from = f32(x);
  float* to = f32(clean);
  parallel_each(g.steps * g.batch, rows_grain(g.features), [&](int64_t position, int) {
    const bool valid = position / g.batch < lengths[position % g.batch];
    float* row = to + position * g.features;
    valid ? std::copy_n(from + position * g.features, g.features, row)
          : std::fill_n(row, g.features, 0.0f);
  });
  return clean;
}

RecurrentInputs wide(ViaF32& t, const RecurrentInputs& in) {
  RecurrentInputs result = in;
  result.x = t.in(in.x);
  result.initial = {.h = t.in(in.initial.h), .c = t.in(in.initial.c)};
  for (RecurrentParameters& p : result.parameters) p = t.in(p);
  return result;
}

class Recurrent final : public RecurrentKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  int64_t reserve_bytes(const RecurrentGeometry& g) override {
    return KeptLayout(g, true).elements() * static_cast<int64_t>(sizeof(float));
  }

  KernelWorkspace training_workspace(const RecurrentGeometry& g, bool dy, bool dx,
                                     bool dw) override {
    const bool narrow = g.dtype == DType::bf16;
    KernelWorkspace workspace = recurrent_workspace(
        g, dy, dx, dw, [&](const Gemm& call) { return narrow ? bf16_gemm_bytes(call) : 0; });
    if (!dx && !dw) {
      workspace.forward += KeptLayout(g, false).elements() * static_cast<int64_t>(sizeof(float));
    }
    return workspace;
  }

  void forward(const RecurrentGeometry& given, const RecurrentInputs& inputs,
               const RecurrentOutputs& outputs) override {
    ViaF32 t(device_.backend, "recurrent", inputs.x);
    const RecurrentGeometry g = as_f32(given);
    const RecurrentInputs in = wide(t, inputs);
    const RecurrentOutputs out{.y = t.out(outputs.y),
                               .last = {.h = t.out(outputs.last.h), .c = t.out(outputs.last.c)},
                               .reserve = outputs.reserve};
    const std::function<void(const Gemm&)> large_gemm = gemm_over_all_steps(given);
    const Call call(device_.backend, g, in, out, out.reserve.defined());
    for (int64_t layer = 0; layer < g.layers; ++layer) {
      const Tensor x = call.input(layer);
      std::deque<CellForward> cells;
      for (int64_t direction = 0; direction < g.directions; ++direction) {
        const int64_t cell = layer * g.directions + direction;
        cells.emplace_back(allocator_, large_gemm, g, direction, call.memory(cell, x),
                           of_cell(f32(out.last.h), g, cell, g.output()),
                           of_cell(f32_or_null(out.last.c), g, cell, g.hidden));
      }
      run_cells(g, cells);
    }
  }

  void backward(const RecurrentGeometry& given, const RecurrentInputs& inputs,
                const RecurrentOutputs& outputs, const RecurrentGradients& results) override {
    ViaF32 t(device_.backend, "recurrent", inputs.x);
    const RecurrentGeometry g = as_f32(given);
    const RecurrentInputs in = wide(t, inputs);
    const RecurrentOutputs out{.y = t.in(outputs.y), .reserve = outputs.reserve};
    RecurrentGradients gradients = results;
    gradients.dy = t.in(results.dy);
    gradients.dlast = {.h = t.in(results.dlast.h), .c = t.in(results.dlast.c)};
    gradients.dx = t.out(results.dx);
    gradients.dinitial = {.h = t.out(results.dinitial.h), .c = t.out(results.dinitial.c)};
    for (RecurrentParameters& p : gradients.dparameters) p = t.out(p);
    const std::function<void(const Gemm&)> large_gemm = gemm_over_all_steps(given);
    const Call call(device_.backend, g, in, out, true);
    const Scratch<float> dh = scratch<float>(g.cells() * g.batch * g.output());
    const Scratch<float> dc = scratch<float>(g.is_lstm() ? g.cells() * g.batch * g.hidden : 0);
    const auto begin_with = [](const Tensor& arrived, const Scratch<float>& d, int64_t count) {
      arrived.defined() ? std::copy_n(f32(arrived), count, d.data())
                        : std::fill_n(d.data(), count, 0.0f);
    };
    begin_with(gradients.dlast.h, dh, g.cells() * g.batch * g.output());
    if (g.is_lstm()) begin_with(gradients.dlast.c, dc, g.cells() * g.batch * g.hidden);

    Tensor dy = gradients.dy;  // of the layer's result
    for (int64_t layer = g.layers - 1; layer >= 0; --layer) {
      Tensor x = call.input(layer);
      if (layer == 0 && g.lengths) x = without_padding(g, x, in.lengths.data<int64_t>().data());
      const Tensor dx = layer == 0 ? gradients.dx : workspace(x.shape());
      std::deque<CellBackward> cells;
      for (int64_t direction = 0; direction < g.directions; ++direction) {
        const int64_t cell = layer * g.directions + direction;
        const CellGradients wanted{
            .dy = dy.defined() ? f32(dy) + direction * g.output() : nullptr,
            .dx = f32_or_null(dx),
            .add_dx = direction > 0,
            .p = gradients.dparameters[static_cast<size_t>(cell)].map(f32_or_null)};
        cells.emplace_back(allocator_, large_gemm, g, direction, call.memory(cell, x), wanted,
                           of_cell(dh.data(), g, cell, g.output()),
                           g.is_lstm() ? of_cell(dc.data(), g, cell, g.hidden) : nullptr);
      }
      run_cells(g, cells);
      for (CellBackward& cell : cells) cell.finish();
      if (layer > 0 && g.dropout > 0) call.drop(dx, dx, layer - 1);
      dy = dx;
    }
    const auto end_with = [](const Scratch<float>& d, const Tensor& initial) {
      if (initial.defined()) std::copy_n(d.data(), initial.count(), f32(initial));
    };
    end_with(dh, gradients.dinitial.h);
    end_with(dc, gradients.dinitial.c);
  }

 private:
  std::function<void(const Gemm&)> gemm_over_all_steps(const RecurrentGeometry& g) {
    if (g.dtype == DType::f32) return gemm;
    return [this](const Gemm& call) { gemm_in_bf16(call); };
  }
};

}  // namespace

std::shared_ptr<RecurrentKernels> make_recurrent(CpuDevice& device) {
  return std::make_shared<Recurrent>(device);
}

}  // namespace whisker::cpu
