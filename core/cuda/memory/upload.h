// Uploads that the host does not wait for: the bytes are copied to a ring of pinned memory, and
// from there to the device in the order of the compute stream. The host waits only when the ring is
// full.
#pragma once

#include "core/cuda/runtime/context.h"
#include "core/cuda/runtime/streams.h"
#include "core/memory/free_list.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace whisker::cuda {

class Uploader {
 public:
  explicit Uploader(Context& context) : context_(context) {}
  ~Uploader() { cudaFreeHost(ring_); }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// `host` may change once this returns. Thread-safe.
  void upload(const void* host, void* device, int64_t bytes);

 private:
  // A part of the ring that a copy may still read, until its event.
  struct Part {
    int64_t begin, end;
    std::unique_ptr<Event> copied;
  };

  void grow(int64_t bytes);
  int64_t reserve(int64_t bytes);
  void retire_first();

  Context& context_;
  std::mutex mutex_;  // guards all below
  char* ring_ = nullptr;
  int64_t size_ = 0;
  int64_t next_ = 0;
  std::deque<Part> parts_;  // in the order of their copies
  FreeList<Event> events_;  // of retired parts, for the next ones
};

}  // namespace whisker::cuda
