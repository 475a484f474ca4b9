// Takes the GPU away from a test's process: a kernel that writes where there is no memory breaks
// off, and every later call fails.
#pragma once

#include "core/error.h"
#include "core/tensor/storage.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <cstdio>

namespace whisker::test {

/// A tensor where the GPU has no memory.
inline Tensor nowhere(Device device, int64_t count) {
  void* const address = reinterpret_cast<void*>(uintptr_t{4096});
  return Tensor(make_ref<Storage>(device, count * 4, address, nullptr), 0, {count}, DType::f32);
}

/// The exit code of an Error whose message is printed, as in apps/main.cpp; 0 when nothing is
/// wrong.
template <class Fn>
int exit_code_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
  return 0;
}

}  // namespace whisker::test
