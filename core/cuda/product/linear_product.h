// The product of a dense layer with what follows it: bias and relu ride in cuBLASLt's epilogue
// where it takes them, else a pass of their own applies them.
#pragma once

#include "core/cuda/product/product_plans.h"
#include "core/geometry.h"

namespace whisker::cuda {

/// x (rows, in), w (out, in), bias (out) or null, y (rows, out).
struct LinearOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};

/// y = f(x w^T + bias); operands may be rounded to tf32 where `tf32`.
void linear_product(ProductPlans& products, const LinearGeometry& g, bool tf32,
                    const LinearOperands& operands, cudaStream_t stream);

}  // namespace whisker::cuda
