#include "core/cuda/product/linear_product.h"

#include "core/cuda/operators/output_gradient.h"

namespace whisker::cuda {
namespace {

ProductEpilogue epilogue_of(bool bias, bool relu) {
  if (bias) return relu ? ProductEpilogue::bias_relu : ProductEpilogue::bias;
  return relu ? ProductEpilogue::relu : ProductEpilogue::none;
}

}  // namespace

void linear_product(ProductPlans& products, const LinearGeometry& g, bool tf32,
                    const LinearOperands& o, cudaStream_t stream) {
  const bool relu = g.activation.kind == Activation::relu;
  const bool fused = relu || g.activation.kind == Activation::none;
  ProductRequest request{
      .dtype = g.dtype,
      .m = g.rows,
      .n = g.out,
      .k = g.in,
      .transpose_b = true,
      .epilogue = fused ? epilogue_of(o.bias != nullptr, relu) : ProductEpilogue::none,
      .tf32 = tf32};
  const ProductOperands operands{.a = o.x, .b = o.w, .y = o.y, .bias = const_cast<void*>(o.bias)};
  if (fused && products.run(request, operands)) return;
  request.epilogue = ProductEpilogue::none;
  products.run(request, operands);
  bias_activation({.rows = g.rows, .channels = g.out, .dtype = g.dtype}, g.activation, o.bias, o.y,
                  stream);
}

}  // namespace whisker::cuda
