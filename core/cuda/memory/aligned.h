// Operands with the 16-byte alignment that libraries expect: the tensor's own memory, or a copy of
// an unaligned view.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/check.h"
#include "core/tensor/tensor.h"

#include <optional>

namespace whisker::cuda {

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

/// Enqueues a copy within the device's memory.
inline void copy_on_device(cudaStream_t stream, const void* from, void* to, int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
        "copying an operand");
}

/// A tensor that is read or written; null when it is undefined.
class AlignedOperand {
 public:
  AlignedOperand(Context& context, Allocator& allocator, const Tensor& tensor)
      : context_(context), tensor_(tensor), data_(tensor.defined() ? tensor.raw() : nullptr) {
    if (!is_aligned(data_)) data_ = copy_.emplace(allocator, tensor.bytes()).data();
  }
  void* data() const { return data_; }

 protected:
  Context& context_;
  const Tensor& tensor_;
  void* data_;
  std::optional<Scratch> copy_;
};

class AlignedInput : public AlignedOperand {
 public:
  AlignedInput(Context& context, Allocator& allocator, const Tensor& tensor)
      : AlignedOperand(context, allocator, tensor) {
    if (copy_) copy_on_device(context.stream(), tensor.raw(), data_, tensor.bytes());
  }
};

/// Call finish() after the work that writes it was enqueued.
class AlignedOutput : public AlignedOperand {
 public:
  using AlignedOperand::AlignedOperand;
  void finish() {
    if (copy_) copy_on_device(context_.stream(), data_, tensor_.raw(), tensor_.bytes());
  }
};

}  // namespace whisker::cuda
