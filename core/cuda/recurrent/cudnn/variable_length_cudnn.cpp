#include "core/cuda/recurrent/cudnn/variable_length_cudnn.h"

#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/elementwise.h"
#include "core/cuda/recurrent/cudnn/sequence_steps.h"
#include "core/cuda/recurrent/recurrent_sizes.h"
#include "core/cuda/runtime/streams.h"

#include <deque>
#include <optional>

namespace whisker::cuda {
namespace {

/// One cell's part of the states (cells, batch, extent); null where there are none.
char* state_of(const RecurrentGeometry& g, const Tensor& states, int64_t cell, int64_t extent) {
  if (!states.defined()) return nullptr;
  return static_cast<char*>(states.raw()) + cell * g.batch * extent * width_of(g);
}

void drop(cudaStream_t stream, const RecurrentGeometry& g, RandomKey key, int64_t layer, void* y) {
  if (g.dropout == 0) return;
  kernels::dropout(stream, g.dropout, recurrent_mask_key(key, layer), g.dtype, y, y,
                   g.steps * g.batch * g.directions * g.output());
}

}  // namespace

/// The cuDNN call of one cell and its part of the reserve (cuDNN's own, then the cell's results).
struct VariableLengthCudnn::Cell {
  RecurrentGeometry geometry;  // one layer, one direction; features: with the flag
  int64_t number = 0;
  int64_t direction = 0;
  int64_t features = 0;  // without the flag
  CudnnRecurrentPlan* plan = nullptr;
  int64_t reserve_at = 0;
  int64_t results_at = 0;

  kernels::Sequences sequences(const Tensor& lengths) const {
    return {.steps = geometry.steps,
            .batch = geometry.batch,
            .lengths = static_cast<const int64_t*>(lengths.raw()),
            .backwards = direction == 1,
            .dtype = geometry.dtype};
  }
};

std::vector<VariableLengthCudnn::Cell> VariableLengthCudnn::cells_of(const RecurrentGeometry& g,
                                                                     bool training,
                                                                     int64_t* reserve_bytes) {
  std::vector<Cell> cells;
  int64_t at = 0;
  for (int64_t number = 0; number < g.cells(); ++number) {
    Cell cell{.geometry = g, .number = number, .direction = number % g.directions};
    cell.features = g.inputs(number / g.directions);
    cell.geometry.features = (cell.features + 1 + 7) / 8 * 8;
    cell.geometry.layers = cell.geometry.directions = 1;
    cell.geometry.lengths = false;
    cell.geometry.dropout = 0;
    cell.plan = &algorithms_.plan(cell.geometry, training);
    cell.reserve_at = at;
    cell.results_at = at + on_reserve_grid(cell.plan->reserve_bytes());
    at = cell.results_at + on_reserve_grid(sequence_bytes(g, g.output()));
    cells.push_back(cell);
  }
  if (reserve_bytes) *reserve_bytes = at;
  return cells;
}

int64_t VariableLengthCudnn::reserve_bytes(const RecurrentGeometry& g) {
  int64_t bytes = 0;
  cells_of(g, true, &bytes);
  return bytes;
}

RecurrentParameters VariableLengthCudnn::padded(const Cell& cell, const RecurrentParameters& p,
                                                bool filled) {
  RecurrentParameters result = p;
  if (!p.w_ih.defined()) return result;
  const int64_t width = cell.geometry.features;
  result.w_ih = empty({p.w_ih.extent(0), width}, p.w_ih.options());
  if (filled) {
    kernels::flag_weights(context_.stream(), cell.geometry.kind, cell.geometry.dtype,
                          cell.geometry.hidden, p.w_ih.raw(), cell.features, result.w_ih.raw(),
                          width);
  }
  return result;
}

void VariableLengthCudnn::run(const Cell& cell, const RecurrentGeometry& g,
                              const RecurrentInputs& in, const RecurrentOutputs& out,
                              const void* input, void* y) {
  const cudaStream_t stream = context_.stream();
  const kernels::Sequences sequences = cell.sequences(in.lengths);
  CudnnRecurrentPlan& plan = *cell.plan;
  char* const reserve = static_cast<char*>(pointer(out.reserve));
  std::optional<Scratch> own_results;
  void* const results = reserve
                            ? reserve + cell.results_at
                            : own_results.emplace(allocator_, sequence_bytes(g, g.output())).data();
  const Scratch x(allocator_, sequence_bytes(g, cell.geometry.features));
  const Scratch weights(allocator_, plan.weight_bytes());
  const Scratch workspace(allocator_, plan.workspace_bytes());
  kernels::flag_steps(stream, sequences, input, cell.features, x.data(), cell.geometry.features);
  const RecurrentParameters parameters =
      padded(cell, in.parameters[static_cast<size_t>(cell.number)], true);
  batched_copy(plan.copies(std::span(&parameters, 1), weights.data()), CopyDirection::pack, stream);
  char* const initial = state_of(g, in.initial.h, cell.number, g.output());
  plan.forward({.x = x.data(),
                .y = results,
                .h = initial,
                .c = state_of(g, in.initial.c, cell.number, g.hidden),
                .weights = weights.data(),
                .workspace = workspace.data(),
                .reserve = reserve ? reserve + cell.reserve_at : nullptr},
               nullptr, state_of(g, out.last.c, cell.number, g.hidden));
  kernels::scatter_results(stream, sequences, results, g.output(), y, g.directions * g.output(),
                           cell.direction * g.output());
  if (char* const last = state_of(g, out.last.h, cell.number, g.output())) {
    kernels::last_results(stream, sequences, results, initial, last, g.output());
  }
}

// cuDNN and the index kernels need 16-byte alignment: other operands are copied.
Tensor VariableLengthCudnn::aligned(const Tensor& x) {
  if (!x.defined() || is_aligned(x.raw())) return x;
  const Tensor copy = empty(x.shape(), x.options());
  check(cudaMemcpyAsync(copy.raw(), x.raw(), static_cast<size_t>(x.bytes()),
                        cudaMemcpyDeviceToDevice, context_.stream()),
        "aligning an operand");
  return copy;
}

RecurrentInputs VariableLengthCudnn::aligned(RecurrentInputs in) {
  in.x = aligned(in.x);
  in.initial = {.h = aligned(in.initial.h), .c = aligned(in.initial.c)};
  return in;
}

void VariableLengthCudnn::forward(const RecurrentGeometry& g, const RecurrentInputs& given,
                                  const RecurrentOutputs& out) {
  const RecurrentInputs in = aligned(given);
  const std::vector<Cell> cells = cells_of(g, out.reserve.defined(), nullptr);
  std::deque<Scratch> between;
  const void* input = in.x.raw();
  for (int64_t layer = 0; layer < g.layers; ++layer) {
    const bool last = layer + 1 == g.layers;
    const int64_t bytes = sequence_bytes(g, g.directions * g.output());
    void* const y = last ? out.y.raw() : between.emplace_back(allocator_, bytes).data();
    for (int64_t direction = 0; direction < g.directions; ++direction) {
      run(cells[static_cast<size_t>(layer * g.directions + direction)], g, in, out, input, y);
    }
    if (last) break;
    drop(context_.stream(), g, in.key, layer, y);
    input = y;
  }
}

void VariableLengthCudnn::weights_gradient(const Cell& cell, const RecurrentCall& call,
                                           const RecurrentParameters& wanted) {
  const cudaStream_t stream = context_.stream();
  CudnnRecurrentPlan& plan = *cell.plan;
  const RecurrentParameters wide = padded(cell, wanted, false);
  const Scratch dweights(allocator_, plan.weight_bytes());
  const std::vector<Copy> copies = plan.copies(std::span(&wide, 1), dweights.data());
  if (copies.empty()) return;
  check(cudaMemsetAsync(dweights.data(), 0, static_cast<size_t>(dweights.bytes()), stream),
        "clearing the weights' gradient");
  plan.backward_weights(call, dweights.data());
  batched_copy(copies, CopyDirection::unpack, stream);
  if (!wanted.w_ih.defined()) return;
  const auto row = static_cast<size_t>(cell.features * width_of(cell.geometry));
  const auto wide_row = static_cast<size_t>(cell.geometry.features * width_of(cell.geometry));
  check(cudaMemcpy2DAsync(wanted.w_ih.raw(), row, wide.w_ih.raw(), wide_row, row,
                          static_cast<size_t>(wanted.w_ih.extent(0)), cudaMemcpyDeviceToDevice,
                          stream),
        "narrowing the gradient of recurrent weights");
}

void VariableLengthCudnn::run_backward(const Cell& cell, const RecurrentGeometry& g,
                                       const RecurrentInputs& in, const RecurrentOutputs& out,
                                       const RecurrentGradients& gradients, const void* input,
                                       const void* dy, void* dx) {
  const cudaStream_t stream = context_.stream();
  const kernels::Sequences sequences = cell.sequences(in.lengths);
  CudnnRecurrentPlan& plan = *cell.plan;
  char* const reserve = static_cast<char*>(out.reserve.raw());
  const Scratch x(allocator_, sequence_bytes(g, cell.geometry.features));
  const Scratch dresults(allocator_, sequence_bytes(g, g.output()));
  const Scratch weights(allocator_, plan.weight_bytes());
  const Scratch workspace(allocator_, plan.workspace_bytes());
  kernels::flag_steps(stream, sequences, input, cell.features, x.data(), cell.geometry.features);
  char* const dlast = state_of(g, gradients.dlast.h, cell.number, g.output());
  kernels::arriving_gradients(stream, sequences, dy, g.directions * g.output(),
                              cell.direction * g.output(), dlast, dresults.data(), g.output());
  const RecurrentParameters parameters =
      padded(cell, in.parameters[static_cast<size_t>(cell.number)], true);
  batched_copy(plan.copies(std::span(&parameters, 1), weights.data()), CopyDirection::pack, stream);
  const RecurrentCall call{.x = x.data(),
                           .y = reserve + cell.results_at,
                           .h = state_of(g, in.initial.h, cell.number, g.output()),
                           .c = state_of(g, in.initial.c, cell.number, g.hidden),
                           .weights = weights.data(),
                           .workspace = workspace.data(),
                           .reserve = reserve + cell.reserve_at};
  char* const dinitial = state_of(g, gradients.dinitial.h, cell.number, g.output());
  plan.backward_data(call, dresults.data(), nullptr,
                     state_of(g, gradients.dlast.c, cell.number, g.hidden), dx, dinitial,
                     state_of(g, gradients.dinitial.c, cell.number, g.hidden));
  if (dinitial) kernels::pass_gradients(stream, sequences, dlast, dinitial, g.output());
  weights_gradient(cell, call, gradients.dparameters[static_cast<size_t>(cell.number)]);
}

void VariableLengthCudnn::backward(const RecurrentGeometry& g, const RecurrentInputs& given,
                                   const RecurrentOutputs& out, const RecurrentGradients& wanted) {
  const cudaStream_t stream = context_.stream();
  const RecurrentInputs in = aligned(given);
  RecurrentGradients gradients = wanted;
  gradients.dy = aligned(wanted.dy);
  gradients.dlast = {.h = aligned(wanted.dlast.h), .c = aligned(wanted.dlast.c)};
  const std::vector<Cell> cells = cells_of(g, true, nullptr);
  RecurrentOutputs own_out = out;
  if (!capturing(stream)) {  // see Note [cuDNN's reserve] in cudnn_recurrent.cpp
    own_out.reserve = empty(out.reserve.shape(), out.reserve.options());
    check(
        cudaMemcpyAsync(own_out.reserve.raw(), out.reserve.raw(),
                        static_cast<size_t>(out.reserve.bytes()), cudaMemcpyDeviceToDevice, stream),
        "copying the reserve");
  }
  const char* const reserve = static_cast<const char*>(own_out.reserve.raw());
  const int64_t row = g.directions * g.output();
  std::deque<Scratch> between;
  const void* dy = pointer(gradients.dy);
  for (int64_t layer = g.layers; layer-- > 0;) {
    const std::span own = std::span(cells).subspan(static_cast<size_t>(layer * g.directions),
                                                   static_cast<size_t>(g.directions));
    const void* input = in.x.raw();
    if (layer > 0) {  // the results of the layer below, again
      void* const y = between.emplace_back(allocator_, sequence_bytes(g, row)).data();
      for (int64_t direction = 0; direction < g.directions; ++direction) {
        const Cell& below = cells[static_cast<size_t>((layer - 1) * g.directions + direction)];
        kernels::scatter_results(stream, below.sequences(in.lengths), reserve + below.results_at,
                                 g.output(), y, row, direction * g.output());
      }
      drop(stream, g, in.key, layer - 1, y);
      input = y;
    }
    void* sides[2] = {};
    for (const Cell& cell : own) {
      const int64_t bytes = sequence_bytes(g, cell.geometry.features);
      void*& side = sides[cell.direction];
      side = between.emplace_back(allocator_, bytes).data();
      run_backward(cell, g, in, own_out, gradients, input, dy, side);
    }
    const int64_t inputs = g.inputs(layer);
    void* dx = pointer(gradients.dx);
    if (layer > 0) dx = between.emplace_back(allocator_, sequence_bytes(g, inputs)).data();
    if (dx) {
      kernels::input_gradients(stream, own.front().sequences(in.lengths), sides[0], sides[1],
                               own.front().geometry.features, dx, inputs);
    }
    if (layer > 0) drop(stream, g, in.key, layer - 1, dx);
    dy = dx;
  }
}

}  // namespace whisker::cuda
