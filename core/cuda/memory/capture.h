// Captured work: a CUDA graph, recorded from the compute stream and launched into it.
#pragma once

#include "core/backend/backend.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/context.h"

#include <functional>
#include <memory>

namespace whisker::cuda {

/// The work that the calling thread enqueues in work(), to be replayed, with memory from the graph
/// pool (Note [Graph pool]). Throws what work() throws, and device when it cannot be captured.
std::unique_ptr<CapturedGraph> captured(Context& context, Allocator& allocator,
                                        const std::function<void()>& work);

}  // namespace whisker::cuda
