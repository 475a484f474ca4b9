// Captured work: a CUDA graph, recorded from the compute stream and launched into it.
#pragma once

#include "core/backend.h"
#include "core/cuda/gpu/context.h"
#include "core/cuda/memory/allocator.h"

#include <functional>
#include <memory>

namespace whisker::cuda {

/// What the calling thread enqueues in work(), to be replayed; its memory comes from the graph
/// pool (Note [Graph pool]). Throws what work() throws, and device when it cannot be captured.
std::unique_ptr<CapturedGraph> captured(Context& context, Allocator& allocator,
                                        const std::function<void()>& work);

}  // namespace whisker::cuda
