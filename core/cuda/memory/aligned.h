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

/// A tensor that is read; null when it is undefined.
class AlignedInput {
 public:
  AlignedInput(Context& context, Allocator& allocator, const Tensor& tensor)
      : data_(tensor.defined() ? tensor.raw() : nullptr) {
    if (is_aligned(data_)) return;
    copy_.emplace(allocator, tensor.bytes());
    check(cudaMemcpyAsync(copy_->data(), data_, static_cast<size_t>(tensor.bytes()),
                          cudaMemcpyDeviceToDevice, context.stream()),
          "aligning an operand");
    data_ = copy_->data();
  }
  void* data() const { return data_; }

 private:
  void* data_;
  std::optional<Scratch> copy_;
};

/// A tensor that is written; null when it is undefined. Call finish() after the work that writes
/// it was enqueued.
class AlignedOutput {
 public:
  AlignedOutput(Context& context, Allocator& allocator, const Tensor& tensor)
      : context_(context), tensor_(tensor), data_(tensor.defined() ? tensor.raw() : nullptr) {
    if (is_aligned(data_)) return;
    copy_.emplace(allocator, tensor.bytes());
    data_ = copy_->data();
  }
  void* data() const { return data_; }
  void finish() {
    if (!copy_) return;
    check(cudaMemcpyAsync(tensor_.raw(), data_, static_cast<size_t>(tensor_.bytes()),
                          cudaMemcpyDeviceToDevice, context_.stream()),
          "storing a result");
  }

 private:
  Context& context_;
  const Tensor& tensor_;
  void* data_;
  std::optional<Scratch> copy_;
};

}  // namespace whisker::cuda
