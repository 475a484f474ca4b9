// The door to oneDNN: what it is here, and single products. Its convolutions and its bf16 products
// have files of their own beside this one (dnnl_*); dnnl_versions.h alone knows version 2 (Debian
// 12) from version 3 (Ubuntu 24.04).
#pragma once

#include "core/cpu/gemm.h"

namespace whisker::cpu {

void dnnl_gemm(const Gemm& g);

/// Channels per block of the layout that oneDNN's convolutions like here; 0: none, use plain.
int dnnl_channel_block();
/// True where the CPU multiplies bf16 itself (AVX512-BF16, AMX), so that it is faster than f32.
bool dnnl_native_bf16();
/// "oneDNN 2.6.3".
const char* dnnl_version_text();
/// The instruction set that oneDNN uses here, in the numbers of its own enumeration.
int dnnl_isa();

}  // namespace whisker::cpu
