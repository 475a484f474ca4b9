// Activations in the layouts of layout.h: the private form of a storage, and scoped access to a
// tensor's elements in the layout that a kernel wants.
#pragma once

#include "core/cpu/allocator.h"
#include "core/cpu/layout.h"
#include "core/cpu/planes.h"
#include "core/storage.h"
#include "core/tensor.h"

#include <memory>
#include <optional>

namespace whisker::cpu {

/// Pictures of `places` = height x width places and `channels` channels, in one layout.
struct Arrangement {
  Layout layout = Layout::plain;
  int64_t n = 0;
  int64_t places = 0;
  int64_t channels = 0;
  int64_t block = 0;  ///< channels per block, when blocked
  bool operator==(const Arrangement&) const = default;

  int64_t blocks() const { return (channels + block - 1) / block; }
  /// Elements, padding included.
  int64_t count() const {
    return n * places * (layout == Layout::blocked ? blocks() * block : channels);
  }
  /// As the pooling and normalisation loops see it; plain or blocked.
  Planes planes() const {
    if (layout == Layout::blocked) {
      return {.n = n, .blocks = blocks(), .inner = block, .channels = channels};
    }
    return {.n = n, .blocks = 1, .inner = channels, .channels = channels};
  }
  Arrangement plain() const {
    return {.layout = Layout::plain, .n = n, .places = places, .channels = channels};
  }
  Arrangement blocked(int64_t width) const {
    return {
        .layout = Layout::blocked, .n = n, .places = places, .channels = channels, .block = width};
  }
};

/// Copies elements of `bytes` (1, 2 or 4) from row-major to `to`'s layout, padding zeroed; and
/// back.
void arrange(const Arrangement& to, int64_t bytes, const void* plain, void* arranged);
void write_plain(const Arrangement& from, int64_t bytes, const void* arranged, void* plain);

/// A blocked activation in its storage: see Note [Private layouts].
class BlockedForm final : public PrivateForm {
 public:
  BlockedForm(Allocator& allocator, const Arrangement& arrangement, int64_t element_bytes);
  ~BlockedForm() override;
  BlockedForm(const BlockedForm&) = delete;
  BlockedForm& operator=(const BlockedForm&) = delete;

  void write_plain(void* plain) const override;
  int64_t bytes() const override { return arrangement_.count() * element_bytes_; }
  const Arrangement& arrangement() const { return arrangement_; }
  void* data() const { return data_; }

 private:
  Allocator* allocator_;
  Arrangement arrangement_;
  int64_t element_bytes_;
  MemoryCategory category_;
  void* data_;
};

/// The blocked form that `x` is in, or null. Reads nothing and converts nothing.
const BlockedForm* blocked_form(const Tensor& x);
/// The blocked arrangement that `x` is in when it is one of `plain`'s pictures, else `plain`.
Arrangement arrangement_of(const Tensor& x, const Arrangement& plain);
/// True when a result may stay in a private form: it is alone in a storage of its own.
bool may_be_private(const Tensor& y);

/// `x` in the wanted arrangement for the length of a scope: its own memory when it is arranged
/// that way, else a converted copy.
class ArrangedInput {
 public:
  ArrangedInput(Allocator& allocator, const Tensor& x, const Arrangement& wanted);
  /// T as `x` has it.
  template <class T = float>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  std::optional<Scratch<char>> copy_;
  void* data_ = nullptr;
};

/// Memory to compute a result in. finish() leaves it in `y`: as a private form where that may be,
/// else row-major.
class ArrangedOutput {
 public:
  ArrangedOutput(Allocator& allocator, const Tensor& y, const Arrangement& arrangement);
  /// For elements that are not y's own, which is but memory for them.
  ArrangedOutput(Allocator& allocator, const Tensor& y, const Arrangement& arrangement,
                 int64_t element_bytes);
  template <class T = float>
  T* data() const {
    return static_cast<T*>(data_);
  }
  void finish();

 private:
  const Tensor* y_;
  Arrangement arrangement_;
  int64_t element_bytes_;
  std::unique_ptr<BlockedForm> form_;
  std::optional<Scratch<char>> scratch_;
  void* data_ = nullptr;
};

}  // namespace whisker::cpu
