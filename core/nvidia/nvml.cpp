// Each reading is one call through dlsym. A function that an older driver lacks counts as a
// measurement that is not there.
#include "core/nvidia/nvml.h"

#include "core/error.h"

#include <array>
#include <climits>
#include <utility>

#include <dlfcn.h>

namespace whisker {
namespace {

// nvmlReturn_t
constexpr int nvml_success = 0;
constexpr int not_supported = 3;
constexpr int insufficient_size = 7;
constexpr int function_not_found = 13;
constexpr unsigned temperature_of_gpu = 0;   // NVML_TEMPERATURE_GPU
constexpr int p2p_read = 0, p2p_nvlink = 2;  // nvmlGpuP2PCapsIndex_t; the status 0 is OK
constexpr unsigned host_bridge = 30, other_socket = 50;  // nvmlGpuTopologyLevel_t
constexpr auto not_available = ULLONG_MAX;               // NVML_VALUE_NOT_AVAILABLE

struct Memory {  // nvmlMemory_t, bytes
  unsigned long long total, free, used;
};
struct Utilization {  // nvmlUtilization_t, percent
  unsigned gpu, memory;
};
struct ProcessInfo {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_gpu_memory;
  unsigned gpu_instance_id, compute_instance_id;
};

template <class... Arguments>
int call(void* library, const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function ? function(arguments...) : function_not_found;
}

// A number that the GPU may not measure.
template <class... Arguments>
std::optional<unsigned> measured(void* library, const char* name, Arguments... arguments) {
  unsigned value = 0;
  if (call(library, name, arguments..., &value) != nvml_success) return std::nullopt;
  return value;
}

std::string text_of(void* library, int code) {
  auto* const describe = reinterpret_cast<const char* (*)(int)>(dlsym(library, "nvmlErrorString"));
  return describe ? describe(code) : fmt::format("error {}", code);
}

}  // namespace

Nvml::Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) {
    fail(ErrorKind::device,
         "NVML: {} cannot be opened ({}). It is part of the NVIDIA driver: install it.", library,
         dlerror());
  }
  if (const int code = call(library_, "nvmlInit_v2"); code != nvml_success) {
    const std::string text = text_of(library_, code);
    dlclose(library_);
    fail(ErrorKind::device, "NVML: {} does not start: {}. See nvidia-smi.", library, text);
  }
}

Nvml::~Nvml() {
  call(library_, "nvmlShutdown");
  dlclose(library_);
}

void Nvml::failed(const char* what, int code) const {
  fail(ErrorKind::device, "NVML: {}: {}. See nvidia-smi.", what, text_of(library_, code));
}

int Nvml::count() const {
  unsigned count = 0;
  const int code = call(library_, "nvmlDeviceGetCount_v2", &count);
  if (code != nvml_success) failed("counting the GPUs", code);
  return static_cast<int>(count);
}

GpuReading Nvml::read(int index) const {
  DeviceHandle* device = nullptr;
  int code = call(library_, "nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(index), &device);
  if (code != nvml_success) failed("finding a GPU", code);
  Memory memory{};
  code = call(library_, "nvmlDeviceGetMemoryInfo", device, &memory);
  if (code != nvml_success) failed("reading a GPU's memory", code);
  GpuReading reading{.index = index,
                     .total_bytes = static_cast<int64_t>(memory.total),
                     .used_bytes = static_cast<int64_t>(memory.used),
                     .free_bytes = static_cast<int64_t>(memory.free)};
  std::array<char, 96> name{};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
  if (call(library_, "nvmlDeviceGetName", device, name.data(),
           static_cast<unsigned>(name.size())) == nvml_success) {
    reading.name = name.data();
  }
  if (const auto milliwatts = measured(library_, "nvmlDeviceGetPowerUsage", device)) {
    reading.power_watts = *milliwatts / 1000.0;
  }
  if (const auto celsius =
          measured(library_, "nvmlDeviceGetTemperature", device, temperature_of_gpu)) {
    reading.temperature_celsius = static_cast<int>(*celsius);
  }
  Utilization busy{};
  if (call(library_, "nvmlDeviceGetUtilizationRates", device, &busy) == nvml_success) {
    reading.gpu_percent = static_cast<int>(busy.gpu);
    reading.memory_percent = static_cast<int>(busy.memory);
  }
  reading.processes = processes_of(device).value_or(std::vector<GpuProcess>());
  return reading;
}

Nvml::DeviceHandle* Nvml::device_at(const std::string& bus_id) const {
  DeviceHandle* device = nullptr;
  const int code = call(library_, "nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device);
  if (code != nvml_success) failed("finding a GPU by its bus", code);
  return device;
}

GpuLink Nvml::link(const std::string& bus_id, const std::string& other_bus_id) const {
  DeviceHandle *const device = device_at(bus_id), *const other = device_at(other_bus_id);
  const auto status = [&](const char* name, auto... what) {
    return measured(library_, name, device, other, what...);
  };
  GpuLink link;
  link.peer_to_peer = status("nvmlDeviceGetP2PStatus", p2p_read) == 0u;
  if (status("nvmlDeviceGetP2PStatus", p2p_nvlink) == 0u) {
    link.name = "NVLink";
  } else if (const auto level = status("nvmlDeviceGetTopologyCommonAncestor")) {
    link.name = *level < host_bridge    ? "PCIe switch"
                : *level < other_socket ? "PCIe"
                                        : "PCIe and CPU sockets";
  }
  return link;
}

std::vector<GpuProcess> Nvml::processes(const std::string& bus_id) const {
  auto processes = processes_of(device_at(bus_id));
  if (!processes) failed("listing a GPU's processes", not_supported);
  return *std::move(processes);
}

// Unset when the driver does not tell.
std::optional<std::vector<GpuProcess>> Nvml::processes_of(DeviceHandle* device) const {
  std::vector<ProcessInfo> found(16);
  for (;;) {
    auto count = static_cast<unsigned>(found.size());
    const int code =
        call(library_, "nvmlDeviceGetComputeRunningProcesses_v3", device, &count, found.data());
    if (code == insufficient_size) {  // `count` is what there is; more may come meanwhile
      found.resize(count + size_t{16});
      continue;
    }
    if (code != nvml_success) return std::nullopt;
    found.resize(count);
    break;
  }
  std::vector<GpuProcess> processes;
  for (const ProcessInfo& process : found) {
    processes.push_back({.pid = process.pid, .bytes = {}});
    if (process.used_gpu_memory != not_available) {
      processes.back().bytes = static_cast<int64_t>(process.used_gpu_memory);
    }
  }
  return processes;
}

}  // namespace whisker
