// Activations in the layouts of layout.h: a blocked result that stays in its storage, and scoped
// access to a tensor's elements in the layout of a kernel.
#pragma once

#include "core/cpu/layout/layout.h"
#include "core/cpu/support/allocator.h"
#include "core/tensor/storage.h"
#include "core/tensor/tensor.h"

#include <memory>
#include <optional>

namespace whisker::cpu {

/// Converts elements of `bytes` (1, 2 or 4) bytes from row-major memory to layout `a`, padded with
/// zeros; or back.
void convert_layout(const ImageLayout& a, int64_t bytes, bool back, void* plain, void* converted);

/// A blocked activation in its storage: see Note [Private layouts].
class BlockedForm final : public PrivateForm {
 public:
  BlockedForm(Allocator& allocator, const ImageLayout& layout, int64_t element_bytes);
  ~BlockedForm() override;
  BlockedForm(const BlockedForm&) = delete;
  BlockedForm& operator=(const BlockedForm&) = delete;

  void write_plain(void* plain) const override;
  int64_t bytes() const override { return layout_.count() * element_bytes_; }
  const ImageLayout& layout() const { return layout_; }
  void* data() const { return data_; }

 private:
  Allocator* allocator_;
  ImageLayout layout_;
  int64_t element_bytes_;
  MemoryCategory category_;
  void* data_;
};

/// The blocked form of `x`, or null. Does not read or convert anything.
const BlockedForm* blocked_form(const Tensor& x);
/// The blocked layout of `x` when it holds the images of `plain`, else `plain`.
ImageLayout layout_of(const Tensor& x, const ImageLayout& plain);
/// True when a result may stay in a private form: `y` has a whole storage of its own.
bool may_be_private(const Tensor& y);

/// `x` in the wanted layout for the length of a scope: its own memory if it has that layout, else a
/// converted copy; null where x is undefined.
class LayoutInput {
 public:
  LayoutInput(Allocator& allocator, const Tensor& x, const ImageLayout& wanted);
  /// T is the element type of `x`.
  template <class T = float>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  std::optional<Scratch<char>> copy_;
  void* data_ = nullptr;
};

/// Memory to compute a result in. finish() stores it in `y`: as a private form where possible, else
/// row-major. Null where y is undefined.
class LayoutOutput {
 public:
  /// element_bytes: of elements of another size than y's, which is plain memory then.
  LayoutOutput(Allocator& allocator, const Tensor& y, const ImageLayout& layout,
               int64_t element_bytes = 0);
  template <class T = float>
  T* data() const {
    return static_cast<T*>(data_);
  }
  void finish();

 private:
  const Tensor* y_;
  ImageLayout layout_;
  int64_t element_bytes_;
  std::unique_ptr<BlockedForm> form_;
  std::optional<Scratch<char>> scratch_;
  void* data_ = nullptr;
};

}  // namespace whisker::cpu
