// A list whose length is fixed at construction; up to N elements need no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace whisker {

template <class T, size_t N>
class InlineList {
 public:
  void resize(size_t size) {
    if (size > N) more_ = std::make_unique<T[]>(size);
    size_ = size;
  }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  T* data() { return more_ ? more_.get() : inline_.data(); }
  const T* data() const { return more_ ? more_.get() : inline_.data(); }

  size_t size_ = 0;
  std::array<T, N> inline_{};
  std::unique_ptr<T[]> more_;
};

}  // namespace whisker
