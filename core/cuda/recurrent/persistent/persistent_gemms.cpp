// The gemms of recurrent layers over all steps, before and after the persistent kernels: the gates'
// inputs, and the gradients of parameters.
#include "core/cuda/gemm/linear_gemm.h"
#include "core/cuda/kernels/output_gradient.h"
#include "core/cuda/recurrent/persistent/persistent_layers.h"

namespace whisker::cuda {

void PersistentLayers::gate_inputs(const RecurrentGeometry& g, int64_t layer, const void* input,
                                   const void* w_ih, const void* b_ih, void* gx) {
  linear_gemm(gemms_,
              {.rows = g.steps * g.batch,
               .in = g.inputs(layer),
               .out = gate_rows(g),
               .bias = g.bias,
               .activation = {},
               .dtype = g.dtype},
              tf32(), {.x = input, .w = w_ih, .bias = b_ih, .y = gx}, context_.stream());
}

// dw (gates hidden, hidden) = the sum over steps of dgh^T h, h being the state before the step.
void PersistentLayers::recurrent_weights(const RecurrentGeometry& g, const PersistentCell& cell,
                                         void* dw) {
  const cudaStream_t stream = context_.stream();
  const int64_t rows = (g.steps - 1) * g.batch;  // of the steps that have one before them
  GemmRequest request{
      .dtype = g.dtype, .m = gate_rows(g), .n = g.hidden, .transpose_a = true, .tf32 = tf32()};
  const int64_t row_bytes = g.hidden * width_of(g);
  const int64_t one_step = g.batch * gate_rows(g) * width_of(g);
  if (!cell.h0 && g.directions == 1 && rows > 0) {
    request.k = rows;
    gemms_.run(request, {.a = static_cast<const char*>(cell.dgh) + one_step, .b = cell.y, .y = dw});
    return;
  }
  const Scratch before(allocator_, g.steps * g.batch * row_bytes);
  char* const first = before.as<char>() + (cell.reverse ? rows * row_bytes : 0);
  const auto step_bytes = static_cast<size_t>(g.batch * row_bytes);
  if (cell.h0) {
    check(cudaMemcpyAsync(first, cell.h0, step_bytes, cudaMemcpyDeviceToDevice, stream),
          "copying initial states");
  } else {
    check(cudaMemsetAsync(first, 0, step_bytes, stream), "clearing initial states");
  }
  if (rows > 0) {
    const int64_t pitch = g.directions * row_bytes;
    check(cudaMemcpy2DAsync(before.as<char>() + (cell.reverse ? 0 : g.batch * row_bytes),
                            static_cast<size_t>(row_bytes),
                            static_cast<const char*>(cell.y) + (cell.reverse ? g.batch * pitch : 0),
                            static_cast<size_t>(pitch), static_cast<size_t>(row_bytes),
                            static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream),
          "copying states");
  }
  request.k = g.steps * g.batch;
  gemms_.run(request, {.a = cell.dgh, .b = before.data(), .y = dw});
}

void PersistentLayers::parameter_gradients(const RecurrentGeometry& g, int64_t layer,
                                           const PersistentCell& cell, const void* input,
                                           const RecurrentParameters& wanted) {
  const RowsGeometry rows{.rows = g.steps * g.batch, .channels = gate_rows(g), .dtype = g.dtype};
  const auto sums = [&](const void* dgates, const Tensor& db) {
    output_gradient(rows, {}, nullptr, dgates, nullptr, db.raw(), context_, allocator_);
  };
  bool db_ih_done = !wanted.b_ih.defined();
  if (wanted.w_ih.defined()) {
    GemmRequest request{.dtype = g.dtype,
                        .m = gate_rows(g),
                        .n = g.inputs(layer),
                        .k = rows.rows,
                        .transpose_a = true,
                        .epilogue = db_ih_done ? GemmEpilogue::none : GemmEpilogue::row_sums,
                        .tf32 = tf32()};
    const GemmOperands operands{
        .a = cell.dgx, .b = input, .y = wanted.w_ih.raw(), .bias = pointer(wanted.b_ih)};
    if (gemms_.run(request, operands)) {
      db_ih_done = true;
    } else {
      request.epilogue = GemmEpilogue::none;
      gemms_.run(request, operands);
    }
  }
  if (!db_ih_done) sums(cell.dgx, wanted.b_ih);
  if (wanted.b_hh.defined()) {
    const bool same = cell.dgh == cell.dgx && wanted.b_ih.defined();
    if (same) {
      check(cudaMemcpyAsync(wanted.b_hh.raw(), wanted.b_ih.raw(),
                            static_cast<size_t>(wanted.b_hh.bytes()), cudaMemcpyDeviceToDevice,
                            context_.stream()),
            "copying a bias' gradient");
    } else {
      sums(cell.dgh, wanted.b_hh);
    }
  }
  if (wanted.w_hh.defined()) recurrent_weights(g, cell, wanted.w_hh.raw());
}

}  // namespace whisker::cuda
