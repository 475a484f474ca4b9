// Fresh memory that shows where nobody wrote it.
#pragma once

#include "core/backend/backend.h"

namespace whisker::test {

/// While it lives, and nobody sets a device's memory options, what is allocated there holds NaN: a
/// result that depends on memory nobody wrote, be it a library that should have, is NaN as well.
class PoisonedMemory {
 public:
  explicit PoisonedMemory(Device device) : backend_(backend_of(device)) {
    backend_.set_memory_options({.poison = true});
  }
  ~PoisonedMemory() { backend_.set_memory_options({}); }
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;

 private:
  Backend& backend_;
};

}  // namespace whisker::test
