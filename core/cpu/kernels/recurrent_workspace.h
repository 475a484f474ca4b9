// What the passes of recurrent layers allocate for themselves, worked out from shapes.
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/kernel_workspace.h"
#include "core/cpu/onednn/gemm.h"

#include <cstdint>
#include <functional>

namespace whisker::cpu {

/// See RecurrentKernels::training_workspace(); `large_gemm_bytes` is what a gemm over all steps
/// takes.
KernelWorkspace recurrent_workspace(const RecurrentGeometry& g, bool dy, bool dx, bool dw,
                                    const std::function<int64_t(const Gemm&)>& large_gemm_bytes);

}  // namespace whisker::cpu
