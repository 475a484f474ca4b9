// A block of memory on one device: bytes, version counter, and optionally a layout that only the
// device's backend understands (see Note [Private layouts]).
#pragma once

#include "core/memory/memory.h"
#include "core/tensor/device.h"
#include "core/tensor/ref.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace whisker {

// Note [Private layouts] A backend may leave an activation in a layout of its own (oneDNN's blocked
// formats). The storage then holds a PrivateForm and no plain memory; the first call of data()
// turns it into row-major in place. Only whole storages are ever private; code above the backend
// never sees it.
class PrivateForm {
 public:
  virtual ~PrivateForm() = default;
  /// Writes the contents, row-major, to `plain` (the storage's bytes() long).
  virtual void write_plain(void* plain) const = 0;
  virtual int64_t bytes() const = 0;
};

class Storage : public RefCounted {
 public:
  /// Allocates from the device's allocator at the first data().
  Storage(Device device, int64_t bytes);
  /// Memory owned elsewhere (an arena, a mapped file), kept alive by `keeper`. `epoch`, when given,
  /// counts writes to the whole owner and is part of every version.
  Storage(Device device, int64_t bytes, void* data, std::shared_ptr<const void> keeper,
          const std::atomic<uint64_t>* epoch = nullptr);
  ~Storage();

  Device device() const { return device_; }
  int64_t bytes() const { return bytes_; }
  /// Row-major contents; converts a private form first. Not thread-safe on the first call.
  void* data() {
    if (!data_ || form_) materialize();
    return data_;
  }

  /// Whether the memory is this storage's own, not a slice of another allocation.
  bool owned() const { return owned_; }

  PrivateForm* form() const { return form_.get(); }
  /// Replaces the contents by a private form and frees the plain memory.
  void adopt(std::unique_ptr<PrivateForm> form);

  /// The contents stay as they are from now on. A backend may keep in derived() what it makes of
  /// them, such as weights in the order that a library reads.
  void set_constant() { constant_ = true; }
  bool constant() const { return constant_; }
  std::shared_ptr<void>& derived() { return derived_; }

  /// Grows with every write through an in-place operation.
  uint64_t version() const {
    return version_ + (epoch_ ? epoch_->load(std::memory_order_relaxed) : 0);
  }
  void bump_version() { ++version_; }

 private:
  void materialize();

  Device device_;
  int64_t bytes_;
  void* data_ = nullptr;
  bool owned_ = true;
  MemoryCategory category_;
  uint64_t version_ = 0;
  const std::atomic<uint64_t>* epoch_ = nullptr;
  std::unique_ptr<PrivateForm> form_;
  bool constant_ = false;
  std::shared_ptr<void> derived_;
  std::shared_ptr<const void> keeper_;
};

/// Storages alive in this process, for leak tests.
int64_t live_storages();

}  // namespace whisker
