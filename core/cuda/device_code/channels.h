// A vector with one element per channel whose dtype is known at run time: gamma, beta and their
// gradients may be f32 beside 16-bit activations.
#pragma once

#include "core/tensor/dtype_name.h"

namespace whisker::cuda {

struct Channels {
  void* data = nullptr;  // f32, bf16 or f16 (channels), or null
  DType dtype = DType::f32;
};

}  // namespace whisker::cuda
