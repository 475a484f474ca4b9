// oneDNN: its version, its properties on this machine, and single gemms. Convolutions and bf16
// gemms have files of their own (dnnl_*); only dnnl_versions.h distinguishes version 2 (Debian 12)
// from 3 (Ubuntu 24.04).
#pragma once

#include "core/cpu/onednn/gemm.h"

namespace whisker::cpu {

void dnnl_gemm(const Gemm& g);

/// Throws std::bad_alloc where address space is short: oneDNN would crash when it finds no memory
/// for generated code. Call it before creating a primitive.
void dnnl_check_memory();

/// Channels per block of the layout that oneDNN's convolutions prefer here; 0: use plain.
int dnnl_channel_block();
/// True where the CPU multiplies bf16 itself (AVX512-BF16, AMX), so that it is faster than f32.
bool dnnl_native_bf16();
/// "oneDNN 2.6.3".
const char* dnnl_version_text();
/// The instruction set that oneDNN uses here, as in its enumeration.
int dnnl_isa();

}  // namespace whisker::cpu
