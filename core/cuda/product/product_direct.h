// Products and column sums written out as their definition, for what cuBLASLt does not take.
#pragma once

#include "core/cuda/product/product.h"

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// One thread per element of y, f32 sums in order; any epilogue but row sums.
void direct_product(const ProductRequest& request, const ProductOperands& operands,
                    cudaStream_t stream);

}  // namespace whisker::cuda
