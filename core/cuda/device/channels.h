// A vector with one element per channel, of a type told at run time: scales, shifts and their
// gradients, which may be f32 beside 16-bit activations.
#pragma once

#include "core/dtype_name.h"

namespace whisker::cuda {

struct Channels {
  void* data = nullptr;  // f32, bf16 or f16 (channels), or null
  DType dtype = DType::f32;
};

}  // namespace whisker::cuda
