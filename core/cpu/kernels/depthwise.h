// Gradients of convolutions with one filter per channel, over blocked images: oneDNN 2 has kernels
// for few of them (AVX2), and unfolded patches of one channel are slow.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/layout/layout.h"
#include "core/cpu/support/allocator.h"

namespace whisker::cpu {

/// True for filters 3, 5 or 7 columns wide, undilated, one per channel, in blocks of 8 or 16.
bool takes_depthwise(const Conv2dGeometry& g, int64_t block);

// T is float or bf16_t. `a` says how channels are blocked; w and dw are (channels, kernel_h,
// kernel_w).

template <class T>
void depthwise_backward_input(Allocator& allocator, const Conv2dGeometry& g, const ImageLayout& a,
                              const T* w, const T* dy, T* dx);
/// Sums run in f32 over an image, then in f64 per thread.
template <class T>
void depthwise_backward_weights(Allocator& allocator, const Conv2dGeometry& g, const ImageLayout& a,
                                const T* x, const T* dy, T* dw);

}  // namespace whisker::cpu
