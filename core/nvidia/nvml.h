// What the NVIDIA driver measures on its GPUs, by its management library NVML. The library is
// opened at run time and never linked; the prototypes here follow the NVML API Reference Guide,
// sections "Device Queries" and "Initialization and Cleanup".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct GpuProcess {
  int64_t pid = 0;  ///< as the driver counts, outside of containers
  std::optional<int64_t> bytes = {};
};

/// One GPU at one moment. What a GPU does not measure is unset.
struct GpuReading {
  int index = 0;  ///< of the driver, which CUDA_VISIBLE_DEVICES does not change
  std::string name = {};
  int64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;
  std::optional<double> power_watts = {};
  std::optional<int> temperature_celsius = {};
  std::optional<int> gpu_percent = {};     ///< of the last moments in which a kernel was running
  std::optional<int> memory_percent = {};  ///< of them in which memory was read or written
  std::vector<GpuProcess> processes = {};  ///< that compute
};

/// The shortest way between two GPUs of this machine.
struct GpuLink {
  std::string name;  ///< "NVLink", "PCIe switch", "PCIe", "PCIe and CPU sockets"; "" when unknown
  bool peer_to_peer = false;  ///< each can read the other's memory
};

class Nvml {
 public:
  /// Throws device, saying why, when `library` cannot be opened or started.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  int count() const;
  /// Throws device when the driver does not report the GPU's memory.
  GpuReading read(int index) const;
  /// Between the GPUs of two PCI bus ids. Throws device when there is no such GPU.
  GpuLink link(const std::string& bus_id, const std::string& other_bus_id) const;
  /// Processes that compute on the GPU of this PCI bus id ("0000:01:00.0"). Throws device when
  /// there is no such GPU or the driver does not report them.
  std::vector<GpuProcess> processes(const std::string& bus_id) const;

 private:
  struct DeviceHandle;  // NVML's nvmlDevice_st
  DeviceHandle* device_at(const std::string& bus_id) const;
  std::optional<std::vector<GpuProcess>> processes_of(DeviceHandle* device) const;
  [[noreturn]] void failed(const char* what, int code) const;

  void* library_ = nullptr;
};

}  // namespace whisker
