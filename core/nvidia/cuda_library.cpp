// Asking the driver, and opening the library. The driver's few functions are called through dlsym
// with prototypes of our own (CUDA Driver API reference, sections "Initialization", "Version
// management" and "Device management"), so that this file needs no CUDA header.
#include "core/nvidia/cuda_library.h"

#include "core/backend/backend.h"
#include "core/error.h"
#include "core/nvidia/cuda_usable.h"

#include <chrono>
#include <cstdlib>
#include <fstream>

#include <dlfcn.h>

namespace whisker {
namespace {

constexpr const char* library_name = "libwhisker_cuda.so";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

bool nouveau_is_loaded() {
  std::ifstream modules("/proc/modules");
  for (std::string line; std::getline(modules, line);) {
    if (line.starts_with("nouveau ")) return true;
  }
  return false;
}

void ask_driver(CudaFacts& facts) {
  // Never closed: the backend uses it for the life of the process.
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return;
  facts.driver = true;
  auto* const get_version = function<int(int*)>(driver, "cuDriverGetVersion");
  auto* const init = function<int(unsigned)>(driver, "cuInit");
  auto* const get_count = function<int(int*)>(driver, "cuDeviceGetCount");
  auto* const describe = function<int(int, const char**)>(driver, "cuGetErrorString");
  if (!get_version || !init || !get_count || !describe) {
    facts.driver_error = "libcuda.so.1 lacks functions that every driver has";
    return;
  }
  constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE
  get_version(&facts.driver_version);
  int error = init(0);
  if (error == 0) error = get_count(&facts.count);
  if (error != 0 && error != no_device) {
    const char* text = nullptr;
    describe(error, &text);
    facts.driver_error = fmt::format("error {}: {}", error, text ? text : "unknown");
  }
}

CudaFacts ask_machine() {
  CudaFacts facts{.built = WHISKER_CUDA != 0, .needed_version = WHISKER_CUDA_VERSION};
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible_devices = visible;
  if (!facts.built) return facts;
  const auto start = Clock::now();
  facts.nouveau = nouveau_is_loaded();
  ask_driver(facts);
  facts.seconds = seconds_since(start);
  return facts;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

const CudaFacts& cuda_facts() {
  static const CudaFacts facts = ask_machine();
  return facts;
}

std::string why_no_cuda(const CudaFacts& facts) {
  if (!facts.built) {
    return "this build has no CUDA backend. Configure with -DWHISKER_CUDA=ON, or use device=cpu.";
  }
  if (!facts.driver) {
    return facts.nouveau ? "the GPU is held by the Nouveau driver, which has no CUDA. Install "
                           "NVIDIA's driver."
                         : "no NVIDIA driver found (libcuda.so.1). Install it, or use device=cpu.";
  }
  // Within one major version an older driver runs what a newer toolkit built (CUDA Compatibility,
  // "Minor version compatibility").
  if (facts.driver_version / 1000 < facts.needed_version / 1000) {
    return fmt::format(
        "the NVIDIA driver is too old: it supports CUDA {}, this build needs CUDA {}. Update the "
        "driver.",
        version_text(facts.driver_version), version_text(facts.needed_version));
  }
  if (!facts.driver_error.empty()) {
    return fmt::format("the NVIDIA driver did not start ({}). See nvidia-smi.", facts.driver_error);
  }
  if (facts.count > 0) return "";
  if (facts.visible_devices) {
    return fmt::format("CUDA_VISIBLE_DEVICES='{}' hides every GPU. Unset it.",
                       *facts.visible_devices);
  }
  return "the NVIDIA driver finds no GPU. See nvidia-smi, or use device=cpu.";
}

int cuda_device_count() {
  static const int count = why_no_cuda().empty() ? cuda_facts().count : 0;
  return count;
}

void check_built_together(const CudaInterface* offered) {
  if (!offered || std::string_view(offered->version) != WHISKER_VERSION) {
    fail(ErrorKind::device, "{} is of Whisker {}, the program of {}. Build them together.",
         library_name, offered ? offered->version : "?", WHISKER_VERSION);
  }
  if (offered->contract != WHISKER_CONTRACT) {
    fail(ErrorKind::device,
         "{} was built from other sources than the program, though both are of Whisker {}. Build "
         "them together, and install both.",
         library_name, WHISKER_VERSION);
  }
}

namespace {

struct OpenLibrary {
  const CudaInterface* interface;
  double seconds;  // that opening took
};

const OpenLibrary& open_library() {
  static const OpenLibrary opened = []() -> OpenLibrary {
    const auto start = Clock::now();
    // Along the program's run path and the loader's, then where it was to be installed.
    void* library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    std::string error = library ? "" : dlerror();
    if (!library) {
      library = dlopen(fmt::format("{}/{}", WHISKER_LIBRARY_FOLDER, library_name).c_str(),
                       RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
      fail(ErrorKind::device,
           "{} cannot be opened: {}. It must be in the folder of the program's libraries, and "
           "needs CUDA {} and cuDNN 9.14 or newer. Install them, or use device=cpu.",
           library_name, error, WHISKER_CUDA_VERSION / 1000);
    }
    auto* const enter = function<const CudaInterface*()>(library, "whisker_cuda_interface");
    const CudaInterface* const offered = enter ? enter() : nullptr;
    check_built_together(offered);
    return {.interface = offered, .seconds = seconds_since(start)};
  }();
  return opened;
}

}  // namespace

const CudaInterface& cuda_interface() {
  return *open_library().interface;
}

std::unique_ptr<Backend> make_cuda_backend(int index) {
  const Device device{DeviceKind::cuda, index};
  if (const std::string reason = why_no_cuda(); !reason.empty()) {
    const std::string file = cuda_is_expected(cuda_facts()) ? cuda_driver_file() : "";
    fail(ErrorKind::device, "device {}: {}{}", device, reason,
         file.empty() ? "" : fmt::format(" The driver's library is {}.", file));
  }
  if (const int count = cuda_device_count(); index >= count) {
    fail(ErrorKind::device, "device {}: expected {}.", device,
         count == 1 ? "cuda:0, the one GPU that is visible"
                    : fmt::format("one of the {} GPUs that are visible, cuda:0 to cuda:{}", count,
                                  count - 1));
  }
  try {
    return cuda_interface().make_backend(index);
  } catch (const Error& error) {
    fail(error.kind(), "device {}: {}", device, error.what());
  }
}

CudaOptions cuda_options(Device device) {
  return cuda_interface().options(backend_of(device));
}

void set_cuda_options(Device device, const CudaOptions& options) {
  cuda_interface().set_options(backend_of(device), options);
}

CudaStartTimes cuda_start_times(Device device) {
  CudaStartTimes times = cuda_interface().start_times(backend_of(device));
  times.driver = cuda_facts().seconds;
  times.library = open_library().seconds;
  return times;
}

void open_cuda_library(Device device, CudaLibrary library) {
  cuda_interface().open(backend_of(device), library);
}

void* cuda_stream(Device device) {
  return cuda_interface().stream(backend_of(device));
}

std::vector<std::string> take_cuda_failures(Device device) {
  return cuda_interface().take_failures(backend_of(device));
}

std::unique_ptr<SideStream> make_side_stream(Device device) {
  return cuda_interface().make_side_stream(backend_of(device));
}

CudaGpu cuda_gpu(Device device) {
  return cuda_interface().gpu(backend_of(device));
}

}  // namespace whisker
