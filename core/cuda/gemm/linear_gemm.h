// The gemm of a dense layer with its bias and activation: in cuBLASLt's epilogue where supported,
// else in a pass of their own.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/gemm/gemm_algorithms.h"

namespace whisker::cuda {

/// x (rows, in), w (out, in), bias (out) or null, y (rows, out).
struct LinearOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};

/// y = f(x w^T + bias); operands may be rounded to tf32 where `tf32`.
void linear_gemm(GemmAlgorithms& gemms, const LinearGeometry& g, bool tf32,
                 const LinearOperands& operands, cudaStream_t stream);

}  // namespace whisker::cuda
