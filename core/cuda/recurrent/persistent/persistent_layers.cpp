// Note [Reserve of persistent layers]
// For each cell: the gates (steps, batch, saved_gates hidden) and an lstm's states c (steps, batch,
// hidden) in f32. Then for each layer but the last: its result (steps, batch, directions hidden).
// Backward only reads it.
#include "core/cuda/recurrent/persistent/persistent_layers.h"

#include "core/cuda/recurrent/sequence_steps.h"

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

}  // namespace

/// Stacked layers that run in one kernel.
struct PersistentLayers::Launch {
  int64_t first = 0, layers = 1;
  PersistentTiling tiling;
};

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

std::vector<PersistentLayers::Launch> PersistentLayers::launches(const RecurrentGeometry& g) const {
  const PersistentTiling tiling = *this->tiling(g);
  std::vector<Launch> all;
  const int64_t together = tiling.cells / g.directions;
  for (int64_t layer = 0; layer < g.layers; layer += together) {
    all.push_back(
        {.first = layer, .layers = std::min(together, g.layers - layer), .tiling = tiling});
  }
  return all;
}

int64_t PersistentLayers::reserve_bytes(const RecurrentGeometry& g) {
  return g.cells() * cell_bytes(g) + (g.layers - 1) * on_reserve_grid(result_bytes(g));
}

PersistentLaunch PersistentLayers::prepared(const RecurrentGeometry& g,
                                            const PersistentTiling& tiling, const Tensor& lengths,
                                            RecurrentMemory& memory) const {
  return {.geometry = g,
          .tiling = tiling,
          .lengths = g.lengths ? static_cast<const int64_t*>(lengths.raw()) : nullptr,
          .y_stride = g.directions * g.hidden,
          .flags = static_cast<uint32_t*>(memory.zeros(persistent_flag_bytes(g, tiling))),
          .stream = context_.stream()};
}

/// The input of the layer above `layer`: its result after dropout.
const void* PersistentLayers::dropped(const RecurrentGeometry& g, const RecurrentInputs& in,
                                      int64_t layer, const void* y, RecurrentMemory& memory) const {
  if (g.dropout == 0) return y;
  void* const result = memory.take(result_bytes(g));
  drop_result(context_.stream(), g, in.key, layer, y, result);
  return result;
}

// All but gx, which only forward needs.
std::vector<PersistentCell> PersistentLayers::cells_of(const RecurrentGeometry& g,
                                                       const Launch& launch,
                                                       const RecurrentInputs& in,
                                                       const RecurrentOutputs& out,
                                                       RecurrentMemory& memory) const {
  const bool kept = out.reserve.defined();
  char* const reserve = static_cast<char*>(pointer(out.reserve));
  const void* const h0 = memory.aligned(in.initial.h);
  const void* const c0 = memory.aligned(in.initial.c);
  std::vector<PersistentCell> cells;
  for (int64_t layer = launch.first; layer < launch.first + launch.layers; ++layer) {
    void* y = out.y.raw();
    if (layer + 1 < g.layers) {
      y = kept ? result_at(g, out.reserve, layer) : memory.take(result_bytes(g));
    }
    for (int64_t direction = 0; direction < g.directions; ++direction) {
      const int64_t number = layer * g.directions + direction;
      const RecurrentParameters& p = in.parameters[static_cast<size_t>(number)];
      char* const own = kept ? reserve + number * cell_bytes(g) : nullptr;
      cells.push_back(
          {.w_ih = layer > launch.first ? p.w_ih.raw() : nullptr,
           .w_hh = p.w_hh.raw(),
           .b_ih = memory.aligned(p.b_ih),
           .b_hh = memory.aligned(p.b_hh),
           .h0 = state_of(g, h0, number, g.hidden),
           .c0 = state_of(g, c0, number, g.hidden),
           .y = advance(y, direction * g.hidden * width_of(g)),
           .gates = own,
           .c = g.is_lstm() && own ? reinterpret_cast<float*>(own + gates_bytes(g)) : nullptr,
           .h_last = state_of(g, pointer(out.last.h), number, g.hidden),
           .c_last = state_of(g, pointer(out.last.c), number, g.hidden),
           .reverse = direction == 1});
    }
  }
  return cells;
}

void PersistentLayers::forward(const RecurrentGeometry& g, const RecurrentInputs& in,
                               const RecurrentOutputs& out) {
  RecurrentMemory kept(context_, allocator_);  // for all launches
  const void* input = in.x.raw();
  for (const Launch& launch : launches(g)) {
    RecurrentMemory memory(context_, allocator_);
    std::vector<PersistentCell> cells = cells_of(g, launch, in, out, kept);
    for (int64_t direction = 0; direction < g.directions; ++direction) {
      PersistentCell& cell = cells[static_cast<size_t>(direction)];
      const RecurrentParameters& p =
          in.parameters[static_cast<size_t>(launch.first * g.directions + direction)];
      void* const gx = memory.take(sequence_bytes(g, gate_rows(g)));
      gate_inputs(g, launch.first, input, p.w_ih.raw(), cell.b_ih, gx);
      cell.gx = gx;
    }
    persistent_forward(prepared(g, launch.tiling, in.lengths, memory), cells);
    const int64_t last = launch.first + launch.layers - 1;
    const void* const y = cells[cells.size() - static_cast<size_t>(g.directions)].y;
    if (last + 1 < g.layers) input = dropped(g, in, last, y, kept);
  }
}

void PersistentLayers::backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                const RecurrentOutputs& out, const RecurrentGradients& gradients) {
  const cudaStream_t stream = context_.stream();
  RecurrentMemory kept(context_, allocator_);  // for all launches
  const void* x = in.x.raw();
  if (g.lengths && std::ranges::any_of(gradients.dparameters, [](const RecurrentParameters& p) {
        return p.w_ih.defined();
      })) {
    // After a sequence's end dgx is zero, but x may hold NaN there, and 0 * NaN is not 0.
    void* const clean = kept.take(in.x.bytes());
    kernels::reorder_steps(stream,
                           {.steps = g.steps,
                            .batch = g.batch,
                            .lengths = static_cast<const int64_t*>(in.lengths.raw()),
                            .dtype = g.dtype},
                           {.x = {x, g.features}, .y = {clean, g.features}, .columns = g.features});
    x = clean;
  }
  const void* dy = kept.aligned(gradients.dy);
  const void* const dh_last = kept.aligned(gradients.dlast.h);
  const void* const dc_last = kept.aligned(gradients.dlast.c);
  const std::vector<Launch> all = launches(g);
  for (size_t i = all.size(); i-- > 0;) {
    const Launch& launch = all[i];
    RecurrentMemory memory(context_, allocator_);
    std::vector<PersistentCell> cells = cells_of(g, launch, in, out, memory);
    const int64_t first = launch.first * g.directions;  // cell
    const int64_t dgates_bytes = sequence_bytes(g, gate_rows(g));
    for (size_t c = 0; c < cells.size(); ++c) {
      PersistentCell& cell = cells[c];
      const int64_t number = first + static_cast<int64_t>(c);
      cell.above = c + static_cast<size_t>(g.directions) < cells.size();
      if (!cell.above) cell.dy = advance(dy, number % g.directions * g.hidden * width_of(g));
      cell.dh_last = state_of(g, dh_last, number, g.hidden);
      cell.dc_last = state_of(g, dc_last, number, g.hidden);
      cell.dgx = cell.dgh = memory.take(dgates_bytes);
      if (g.kind == RecurrentKind::gru) cell.dgh = memory.take(dgates_bytes);
      cell.dh0 = state_of(g, pointer(gradients.dinitial.h), number, g.hidden);
      cell.dc0 = state_of(g, pointer(gradients.dinitial.c), number, g.hidden);
    }
    persistent_backward(prepared(g, launch.tiling, in.lengths, memory), cells);

    const void* input = x;  // of the layer
    for (size_t c = 0; c < cells.size(); ++c) {
      const int64_t number = first + static_cast<int64_t>(c);
      const int64_t layer = number / g.directions;
      if (layer > 0 && number % g.directions == 0) {
        input = dropped(g, in, layer - 1, result_at(g, out.reserve, layer - 1), memory);
      }
      parameter_gradients(g, layer, cells[c], input,
                          gradients.dparameters[static_cast<size_t>(number)]);
    }

    // The gradient of the input of the launch's first layer: dy of the launch below, or dx.
    if (launch.first == 0 && !gradients.dx.defined()) break;
    const int64_t inputs = g.inputs(launch.first);
    void* const dx = launch.first == 0 ? gradients.dx.raw() : kept.take(sequence_bytes(g, inputs));
    for (int64_t direction = 0; direction < g.directions; ++direction) {
      void* const part = direction == 0 ? dx : memory.take(sequence_bytes(g, inputs));
      const auto number = static_cast<size_t>(first + direction);
      gemms_.run({.dtype = g.dtype,
                  .m = g.steps * g.batch,
                  .n = inputs,
                  .k = gate_rows(g),
                  .tf32 = tf32()},
                 {.a = cells[static_cast<size_t>(direction)].dgx,
                  .b = in.parameters[number].w_ih.raw(),
                  .y = part});
      if (direction > 0) {
        kernels::accumulate(stream, g.dtype, part, dx, g.steps * g.batch * inputs);
      }
    }
    if (launch.first > 0) drop_result(stream, g, in.key, launch.first - 1, dx, dx);
    dy = dx;
  }
}

}  // namespace whisker::cuda
