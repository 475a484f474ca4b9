#include "core/cuda/gemm/linear_gemm.h"

#include "core/cuda/ops/output_gradient.h"

namespace whisker::cuda {
namespace {

GemmEpilogue epilogue_of(bool bias, bool relu) {
  if (bias) return relu ? GemmEpilogue::bias_relu : GemmEpilogue::bias;
  return relu ? GemmEpilogue::relu : GemmEpilogue::none;
}

}  // namespace

void linear_gemm(GemmAlgorithms& gemms, const LinearGeometry& g, bool tf32, const LinearOperands& o,
                 cudaStream_t stream) {
  const bool relu = g.activation.kind == Activation::relu;
  const bool fused = relu || g.activation.kind == Activation::none;
  GemmRequest request{.dtype = g.dtype,
                      .m = g.rows,
                      .n = g.out,
                      .k = g.in,
                      .transpose_b = true,
                      .epilogue = fused ? epilogue_of(o.bias != nullptr, relu) : GemmEpilogue::none,
                      .tf32 = tf32};
  const GemmOperands operands{.a = o.x, .b = o.w, .y = o.y, .bias = const_cast<void*>(o.bias)};
  if (fused && gemms.run(request, operands)) return;
  request.epilogue = GemmEpilogue::none;
  gemms.run(request, operands);
  bias_activation({.rows = g.rows, .channels = g.out, .dtype = g.dtype}, g.activation, o.bias,
                  nullptr, o.y, stream);
}

}  // namespace whisker::cuda
