// What the passes over recurrent layers share, by own kernels and by cuDNN: their memory, a cell's
// part of the states, dropout between layers.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/cuda/kernels/elementwise.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/recurrent/recurrent_sizes.h"

#include <algorithm>
#include <deque>

namespace whisker::cuda {

/// Device memory for the work that is enqueued in its lifetime.
class RecurrentMemory {
 public:
  RecurrentMemory(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void* take(int64_t bytes) {
    return scratch_.emplace_back(allocator_, std::max<int64_t>(bytes, 1)).data();
  }
  void* copied(const Tensor& x) {
    void* const copy = take(x.bytes());
    check(cudaMemcpyAsync(copy, x.raw(), static_cast<size_t>(x.bytes()), cudaMemcpyDeviceToDevice,
                          context_.stream()),
          "copying an operand of recurrent layers");
    return copy;
  }
  /// The memory of `x`, null where it is undefined; a copy unless aligned to 16 bytes.
  void* aligned(const Tensor& x) {
    return !x.defined() || is_aligned(x.raw()) ? pointer(x) : copied(x);
  }
  void* zeros(int64_t bytes) {
    void* const memory = take(bytes);
    check(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), context_.stream()),
          "clearing memory of recurrent layers");
    return memory;
  }

 private:
  Context& context_;
  Allocator& allocator_;
  std::deque<Scratch> scratch_;
};

/// `memory` from a byte on; null stays null.
inline char* advance(const void* memory, int64_t bytes) {
  return memory ? static_cast<char*>(const_cast<void*>(memory)) + bytes : nullptr;
}

/// The states (cells, batch, extent) from `cell` on; null stays null.
inline char* state_of(const RecurrentGeometry& g, const void* states, int64_t cell,
                      int64_t extent) {
  return advance(states, cell * g.batch * extent * width_of(g));
}

/// Dropout of the result of `layer`, or of its gradient; nothing where there is none. `to` may be
/// `from`.
inline void drop_result(cudaStream_t stream, const RecurrentGeometry& g, RandomKey key,
                        int64_t layer, const void* from, void* to) {
  if (g.dropout == 0) return;
  kernels::dropout(stream, g.dropout, recurrent_mask_key(key, layer), g.dtype, from, to,
                   result_bytes(g) / width_of(g));
}

}  // namespace whisker::cuda
