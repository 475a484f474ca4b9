// The libraries as they are loaded, which may differ from those that the backend was built with.
// The driver's version is compared in core/nvidia/cuda_library.cpp, before this library is opened.
#pragma once

#include "core/backend/backend.h"

#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

namespace whisker::cuda {

/// "13.1.0" of 130100, as cuBLASLt, cuDNN from 9 on and NCCL count.
inline std::string version_text(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

/// A function found at run time, as the pointer that it initialises.
struct FoundFunction {
  void* address = nullptr;
  template <class F>
  operator F*() const {  // NOLINT: one expression per member of a table
    return reinterpret_cast<F*>(address);
  }
};

/// The file that holds the function, as it was loaded.
template <class Function>
std::string file_of(Function* function) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(function), &info) || !info.dli_fname) return "?";
  return info.dli_fname;
}

/// Opens `part` (graph, ops, adv, ...) of the cuDNN that is loaded, for the life of the process.
/// cuDNN itself opens its parts when their functions are called, and ends the process where it
/// cannot (cuDNN Installation Guide, "sub-library overview"). Throws device, with the loader's
/// message, when that fails.
void open_cudnn_part(std::string_view part);

/// A number like cudnnGetVersion()'s. scripts/find_cuda.sh asks for it in headers.
inline constexpr size_t least_cudnn = 91400;

/// Throws device, with what is loaded and what is needed, when cuDNN is older than that or not
/// whole. Takes a millisecond: of cuDNN's parts only a small one is opened.
void check_cudnn_version();

/// Version and file of CUDA, cuDNN, cuBLASLt (opens it) and NCCL, and what is wrong with them.
std::vector<BackendProperty> library_versions();

}  // namespace whisker::cuda
