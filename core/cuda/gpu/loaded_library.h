// What a message says of a library: its version, and the file that it was loaded from.
#pragma once

#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

namespace whisker::cuda {

/// "13.1.0" of 130100, as cuBLASLt, cuDNN from 9 on and NCCL count.
inline std::string version_text(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

/// The file that holds the function, as it was loaded.
template <class Function>
std::string file_of(Function* function) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(function), &info) || !info.dli_fname) return "?";
  return info.dli_fname;
}

}  // namespace whisker::cuda
