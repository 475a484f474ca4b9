// Intrusive reference counting: one word per handle, the count inside the object.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace whisker {

/// Base of objects held by Ref. A type may define `static void dispose(T*)`, which then replaces
/// delete.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  uint32_t use_count() const { return count_.load(std::memory_order_acquire); }

 private:
  template <class T>
  friend class Ref;
  mutable std::atomic<uint32_t> count_{0};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { release(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const { return object_ == other.object_; }

 private:
  void retain() {
    if (object_) object_->count_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (!object_ || object_->count_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if constexpr (requires(T * t) { T::dispose(t); }) {
      T::dispose(object_);
    } else {
      delete object_;
    }
  }

  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace whisker
