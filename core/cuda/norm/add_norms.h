// Two batch norms over tensors (rows, channels) whose results are added, fused: y = f(first +
// second). Statistics are f32; gamma, beta and their gradients are f32 or as the tensors.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda::kernels {

struct AddedNorm {
  const void* x = nullptr;  // (rows, channels)
  Channels gamma = {}, beta = {};
  const float* mean = nullptr;     // (channels)
  const float* inv_std = nullptr;  // (channels)
};
/// y (rows, channels) from known statistics.
void add_norms(Context& context, const BatchNormGeometry& g, const AddedNorm& first,
               const AddedNorm& second, void* y);

/// Null: not wanted.
struct AddedNormGradients {
  void* dx = nullptr;  // (rows, channels)
  Channels dgamma = {}, dbeta = {};
};
struct AddNormsBackward {
  const void* dy = nullptr;    // (rows, channels)
  const void* more = nullptr;  // (rows, channels): added to dy
  AddedNormGradients first, second;
};
void add_norms_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                        const AddedNorm& first, const AddedNorm& second, const AddNormsBackward& p);

}  // namespace whisker::cuda::kernels
