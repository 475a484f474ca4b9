// Note [Reserve of persistent layers]
// The gates (steps, batch, saved_gates hidden) of each cell and an lstm's states c (steps, batch,
// hidden) in f32, then the result (steps, batch, directions hidden) of each layer but the last.
// Backward only reads it.
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/recurrent/recurrent_pass.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

int64_t gates_bytes(const RecurrentGeometry& g) {
  return on_reserve_grid(sequence_bytes(g, saved_gates(g.kind) * g.hidden));
}
int64_t cells_bytes(const RecurrentGeometry& g) {
  return g.is_lstm() ? on_reserve_grid(g.steps * g.batch * g.hidden * int64_t{sizeof(float)}) : 0;
}
int64_t cell_bytes(const RecurrentGeometry& g) {
  return gates_bytes(g) + cells_bytes(g);
}

/// The stored result of a layer below the last.
char* result_at(const RecurrentGeometry& g, const Tensor& reserve, int64_t layer) {
  return static_cast<char*>(reserve.raw()) + g.cells() * cell_bytes(g) +
         layer * on_reserve_grid(result_bytes(g));
}

/// Stacked layers that run in one kernel.
struct Launch {
  int64_t first = 0, layers = 1;
};

class PersistentPass : RecurrentPass {
 public:
  PersistentPass(CudaDevice& device, bool tf32, const PersistentTiling& tiling,
                 const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out)
      : RecurrentPass(device, g, in, out), gemms_(*device.gemms), tf32_(tf32), tiling_(tiling) {
    const int64_t together = tiling.cells / g.directions;
    for (int64_t layer = 0; layer < g.layers; layer += together) {
      launches_.push_back({.first = layer, .layers = std::min(together, g.layers - layer)});
    }
  }

  void forward() {
    const void* input = in_.x.raw();
    for (const Launch& launch : launches_) {
      RecurrentMemory memory(context_, allocator_);
      std::vector<PersistentCell> cells = cells_of(launch, memory_);
      for (int64_t direction = 0; direction < g_.directions; ++direction) {
        PersistentCell& cell = cells[static_cast<size_t>(direction)];
        void* const gx = memory.take(sequence_bytes(g_, gate_rows(g_)));
        gemms_.linear({.rows = g_.steps * g_.batch,
                       .in = g_.inputs(launch.first),
                       .out = gate_rows(g_),
                       .bias = g_.bias,
                       .activation = {},
                       .dtype = g_.dtype},
                      tf32_,
                      {.a = input,
                       .b = parameters(launch.first * g_.directions + direction).w_ih.raw(),
                       .y = gx,
                       .bias = const_cast<void*>(cell.b_ih)});
        cell.gx = gx;
      }
      persistent_forward(prepared(memory), cells);
      const int64_t last = launch.first + launch.layers - 1;
      void* const y = cells[cells.size() - static_cast<size_t>(g_.directions)].y;
      if (last + 1 < g_.layers) input = dropped(last, y, memory_);
    }
  }

  void backward(const RecurrentGradients& gradients) {
    const void* const x = readable_x(gradients);
    const void* dy = memory_.aligned(gradients.dy);
    const void* const dh_last = memory_.aligned(gradients.dlast.h);
    const void* const dc_last = memory_.aligned(gradients.dlast.c);
    for (size_t i = launches_.size(); i-- > 0;) {
      const Launch& launch = launches_[i];
      RecurrentMemory memory(context_, allocator_);
      std::vector<PersistentCell> cells = cells_of(launch, memory);
      const int64_t first = launch.first * g_.directions;  // cell
      const int64_t dgates_bytes = sequence_bytes(g_, gate_rows(g_));
      for (size_t c = 0; c < cells.size(); ++c) {
        PersistentCell& cell = cells[c];
        const int64_t number = first + static_cast<int64_t>(c);
        cell.above = c + static_cast<size_t>(g_.directions) < cells.size();
        if (!cell.above) cell.dy = advance(dy, number % g_.directions * g_.hidden * width_of(g_));
        cell.dh_last = h_of(number, dh_last);
        cell.dc_last = c_of(number, dc_last);
        cell.dgx = cell.dgh = memory.take(dgates_bytes);
        if (g_.kind == RecurrentKind::gru) cell.dgh = memory.take(dgates_bytes);
        cell.dh0 = h_of(number, pointer(gradients.dinitial.h));
        cell.dc0 = c_of(number, pointer(gradients.dinitial.c));
      }
      persistent_backward(prepared(memory), cells);

      const void* input = x;  // of the layer
      for (size_t c = 0; c < cells.size(); ++c) {
        const int64_t number = first + static_cast<int64_t>(c);
        const int64_t layer = number / g_.directions;
        if (layer > 0 && number % g_.directions == 0) {
          input = dropped(layer - 1, result_at(g_, out_.reserve, layer - 1), memory);
        }
        parameter_gradients(layer, cells[c], input,
                            gradients.dparameters[static_cast<size_t>(number)]);
      }
      if (i == 0 && !gradients.dx.defined()) break;
      // dy of the launch below, or dx
      void* const dx =
          i == 0 ? gradients.dx.raw() : memory_.take(sequence_bytes(g_, g_.inputs(launch.first)));
      input_gradient(launch.first, cells, dx, memory);
      if (i > 0) drop(launch.first - 1, dx, dx);
      dy = dx;
    }
  }

 private:
  const RecurrentParameters& parameters(int64_t cell) const {
    return in_.parameters[static_cast<size_t>(cell)];
  }

  PersistentLaunch prepared(RecurrentMemory& memory) const {
    return {.geometry = g_,
            .tiling = tiling_,
            .lengths = g_.lengths ? static_cast<const int64_t*>(in_.lengths.raw()) : nullptr,
            .y_stride = g_.directions * g_.hidden,
            .flags = static_cast<uint32_t*>(memory.zeros(persistent_flag_bytes(g_, tiling_))),
            .stream = stream_};
  }

  /// What forward reads, but for gx, and writes.
  std::vector<PersistentCell> cells_of(const Launch& launch, RecurrentMemory& memory) const {
    char* const reserve = static_cast<char*>(pointer(out_.reserve));
    std::vector<PersistentCell> cells;
    for (int64_t layer = launch.first; layer < launch.first + launch.layers; ++layer) {
      void* y = out_.y.raw();
      if (layer + 1 < g_.layers) {
        y = reserve ? result_at(g_, out_.reserve, layer) : memory.take(result_bytes(g_));
      }
      for (int64_t direction = 0; direction < g_.directions; ++direction) {
        const int64_t number = layer * g_.directions + direction;
        const RecurrentParameters& p = parameters(number);
        char* const own = advance(reserve, number * cell_bytes(g_));
        char* const c = g_.is_lstm() ? advance(own, gates_bytes(g_)) : nullptr;
        cells.push_back({.w_ih = layer > launch.first ? p.w_ih.raw() : nullptr,
                         .w_hh = p.w_hh.raw(),
                         .b_ih = memory.aligned(p.b_ih),
                         .b_hh = memory.aligned(p.b_hh),
                         .h0 = h_of(number, h_),
                         .c0 = c_of(number, c_),
                         .y = advance(y, direction * g_.hidden * width_of(g_)),
                         .gates = own,
                         .c = reinterpret_cast<float*>(c),
                         .h_last = h_of(number, pointer(out_.last.h)),
                         .c_last = c_of(number, pointer(out_.last.c)),
                         .reverse = direction == 1});
      }
    }
    return cells;
  }

  /// x where gradients of weights are wanted: after a sequence's end dgx is zero, but x may hold
  /// NaN there, and 0 * NaN is not 0.
  const void* readable_x(const RecurrentGradients& gradients) {
    const void* const x = in_.x.raw();
    if (!g_.lengths || std::ranges::none_of(gradients.dparameters,
                                            [](const auto& p) { return p.w_ih.defined(); })) {
      return x;
    }
    void* const clean = memory_.take(in_.x.bytes());
    kernels::reorder_steps(
        stream_, sequences(false),
        {.x = {x, g_.features}, .y = {clean, g_.features}, .columns = g_.features});
    return clean;
  }

  /// dx (steps, batch, inputs of the layer), the sum of dgx W_ih over the directions.
  void input_gradient(int64_t layer, const std::vector<PersistentCell>& cells, void* dx,
                      RecurrentMemory& memory) {
    const int64_t rows = g_.steps * g_.batch, inputs = g_.inputs(layer);
    for (int64_t direction = 0; direction < g_.directions; ++direction) {
      void* const part = direction == 0 ? dx : memory.take(sequence_bytes(g_, inputs));
      gemms_.run({.dtype = g_.dtype, .m = rows, .n = inputs, .k = gate_rows(g_), .tf32 = tf32_},
                 {.a = cells[static_cast<size_t>(direction)].dgx,
                  .b = parameters(layer * g_.directions + direction).w_ih.raw(),
                  .y = part});
      if (direction > 0) kernels::accumulate(stream_, g_.dtype, part, dx, rows * inputs);
    }
  }

  /// dw (gates hidden, hidden) = the sum over steps of dgh^T h, h being the state before the step.
  void recurrent_weights(const PersistentCell& cell, void* dw) {
    const int64_t rows = (g_.steps - 1) * g_.batch;  // of the steps that have one before them
    GemmRequest request{
        .dtype = g_.dtype, .m = gate_rows(g_), .n = g_.hidden, .transpose_a = true, .tf32 = tf32_};
    const int64_t row_bytes = g_.hidden * width_of(g_);
    const int64_t one_step = g_.batch * gate_rows(g_) * width_of(g_);
    if (!cell.h0 && g_.directions == 1 && rows > 0) {
      request.k = rows;
      gemms_.run(request,
                 {.a = static_cast<const char*>(cell.dgh) + one_step, .b = cell.y, .y = dw});
      return;
    }
    const Scratch before(allocator_, g_.steps * g_.batch * row_bytes);
    char* const first = before.as<char>() + (cell.reverse ? rows * row_bytes : 0);
    const int64_t step_bytes = g_.batch * row_bytes;
    if (cell.h0) {
      copy_on_device(stream_, cell.h0, first, step_bytes);
    } else {
      check(cudaMemsetAsync(first, 0, static_cast<size_t>(step_bytes), stream_),
            "clearing initial states");
    }
    if (rows > 0) {
      const int64_t pitch = g_.directions * row_bytes;
      check(cudaMemcpy2DAsync(
                before.as<char>() + (cell.reverse ? 0 : g_.batch * row_bytes),
                static_cast<size_t>(row_bytes),
                static_cast<const char*>(cell.y) + (cell.reverse ? g_.batch * pitch : 0),
                static_cast<size_t>(pitch), static_cast<size_t>(row_bytes),
                static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream_),
            "copying states");
    }
    request.k = g_.steps * g_.batch;
    gemms_.run(request, {.a = cell.dgh, .b = before.data(), .y = dw});
  }

  /// Computes the defined tensors of `wanted` from the gradients of `cell`, whose layer read
  /// `input`.
  void parameter_gradients(int64_t layer, const PersistentCell& cell, const void* input,
                           const RecurrentParameters& wanted) {
    const RowsGeometry rows{
        .rows = g_.steps * g_.batch, .channels = gate_rows(g_), .dtype = g_.dtype};
    const auto sums = [&](const void* dgates, const Tensor& db) {
      output_gradient(rows, {}, nullptr, dgates, nullptr, db.raw(), context_, allocator_);
    };
    if (wanted.w_ih.defined()) {
      gemms_.run({.dtype = g_.dtype,
                  .m = gate_rows(g_),
                  .n = g_.inputs(layer),
                  .k = rows.rows,
                  .transpose_a = true,
                  .row_sums = wanted.b_ih.defined(),
                  .tf32 = tf32_},
                 {.a = cell.dgx, .b = input, .y = wanted.w_ih.raw(), .bias = pointer(wanted.b_ih)});
    } else if (wanted.b_ih.defined()) {
      sums(cell.dgx, wanted.b_ih);
    }
    if (wanted.b_hh.defined()) {
      if (cell.dgh == cell.dgx && wanted.b_ih.defined()) {
        copy_on_device(stream_, wanted.b_ih.raw(), wanted.b_hh.raw(), wanted.b_hh.bytes());
      } else {
        sums(cell.dgh, wanted.b_hh);
      }
    }
    if (wanted.w_hh.defined()) recurrent_weights(cell, wanted.w_hh.raw());
  }

  GemmAlgorithms& gemms_;
  bool tf32_;
  const PersistentTiling tiling_;
  std::vector<Launch> launches_;
};

}  // namespace

std::optional<PersistentTiling> PersistentLayers::tiling(const RecurrentGeometry& g) const {
  if (!persistent_kernels_compiled() || (g.dtype == DType::f32 && !tf32())) return std::nullopt;
  // Not supported: a backward direction that starts at each sequence's own end.
  if (g.lengths && g.directions == 2) return std::nullopt;
  // Stacked f32 layers are bound by L2, from which many blocks read every state.
  const bool stacked = g.layers > 1 && g.directions == 1 && g.dropout == 0 && g.dtype != DType::f32;
  if (stacked) {
    if (const auto found = persistent_tiling(g, true, context_.properties())) return found;
  }
  auto found = persistent_tiling(g, false, context_.properties());
  if (found) found->cells = static_cast<int>(g.directions);
  return found;
}

int64_t PersistentLayers::reserve_bytes(const RecurrentGeometry& g) {
  return g.cells() * cell_bytes(g) + (g.layers - 1) * on_reserve_grid(result_bytes(g));
}

void PersistentLayers::forward(const RecurrentGeometry& g, const RecurrentInputs& in,
                               const RecurrentOutputs& out) {
  PersistentPass(device_, tf32(), *tiling(g), g, in, out).forward();
}

void PersistentLayers::backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                const RecurrentOutputs& out, const RecurrentGradients& gradients) {
  PersistentPass(device_, tf32(), *tiling(g), g, in, out).backward(gradients);
}

}  // namespace whisker::cuda
