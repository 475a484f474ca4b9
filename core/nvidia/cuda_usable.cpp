#include "core/nvidia/cuda_usable.h"

#include "core/nvidia/cuda_library.h"

#include <dlfcn.h>

namespace whisker {

std::string why_no_cuda(Device device) {
  try {
    backend_of(device);
    return "";
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string prefix = fmt::format("device {}: ", device);
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }
}

bool cuda_is_expected(const CudaFacts& facts) {
  return facts.built && (facts.count > 0 || !facts.driver_error.empty());
}

std::string cuda_driver_file() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!driver) return "";
  Dl_info info{};
  void* const function = dlsym(driver, "cuInit");
  const bool found = function && dladdr(function, &info) && info.dli_fname;
  dlclose(driver);
  return found ? info.dli_fname : "libcuda.so.1";
}

std::vector<BackendProperty> cuda_libraries() {
  const CudaFacts& facts = cuda_facts();
  if (!facts.driver) return {};
  std::vector<BackendProperty> all = {
      {"driver", fmt::format("for CUDA up to {}.{} ({})", facts.driver_version / 1000,
                             facts.driver_version % 1000 / 10, cuda_driver_file())}};
  try {
    cuda_interface();
  } catch (const Error&) {
    return all;  // why_no_cuda() says it
  }
  void* const library = dlopen("libwhisker_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  using List = void(std::vector<BackendProperty>*);
  if (void* const list = library ? dlsym(library, "whisker_cuda_libraries") : nullptr) {
    reinterpret_cast<List*>(list)(&all);
  }
  if (library) dlclose(library);
  return all;
}

}  // namespace whisker
