#include "core/cuda/gpu/cudnn_parts.h"

#include "core/cuda/gpu/loaded_library.h"
#include "core/error.h"

#include <filesystem>

#include <cudnn.h>

namespace whisker::cuda {

// Where cuDNN itself looks: beside it, so that all parts are of one version, then along the
// loader's path.
void open_cudnn_part(std::string_view part) {
  const std::string name = fmt::format("libcudnn_{}.so.{}", part, CUDNN_MAJOR);
  const std::filesystem::path whole = file_of(&cudnnGetErrorString);
  if (dlopen((whole.parent_path() / name).c_str(), RTLD_LAZY | RTLD_LOCAL)) return;
  if (dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return;
  fail(ErrorKind::device,
       "cuDNN: {} cannot be opened: {}. It belongs beside {}: install all of cuDNN, or use "
       "device=cpu.",
       name, dlerror(), whole.string());
}

}  // namespace whisker::cuda
