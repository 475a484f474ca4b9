// Stands in for libnvidia-ml.so.1 of two GPUs: the second one, an old card, measures neither power
// nor use, and its driver does not say what a process holds. With WHISKER_FAKE_NVML=broken it does
// not start.
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr int success = 0, invalid_argument = 2, not_supported = 3, not_found = 6,
              insufficient_size = 7, driver_not_loaded = 9;
constexpr unsigned long long mebi = 1 << 20;

struct Gpu {
  unsigned index;
};
Gpu gpus[2] = {{0}, {1}};

}  // namespace

extern "C" {

struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakeUtilization {
  unsigned gpu, memory;
};
struct FakeProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2() {
  const char* mode = std::getenv("WHISKER_FAKE_NVML");
  return mode && std::string_view(mode) == "broken" ? driver_not_loaded : success;
}
int nvmlShutdown() {
  return success;
}
const char* nvmlErrorString(int code) {
  return code == driver_not_loaded ? "Driver Not Loaded" : "Some Error";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return success;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** gpu) {
  if (index > 1) return invalid_argument;
  *gpu = &gpus[index];
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Gpu** gpu) {
  const std::string_view id = bus;
  if (id != "0000:01:00.0" && id != "0000:03:00.0") return not_found;
  *gpu = &gpus[id == "0000:01:00.0" ? 0 : 1];
  return success;
}
// No NVLink, but each reads the other's memory through one PCIe switch.
int nvmlDeviceGetP2PStatus(Gpu*, Gpu*, int capability, unsigned* status) {
  *status = capability == 2 ? 5 : 0;
  return success;
}
int nvmlDeviceGetTopologyCommonAncestor(Gpu* gpu, Gpu* other, unsigned* level) {
  *level = gpu == other ? 0 : 10;
  return success;
}
int nvmlDeviceGetName(Gpu* gpu, char* name, unsigned length) {
  std::strncpy(name, gpu->index == 0 ? "Fake, \"large\"" : "Fake small", length);
  return success;
}
int nvmlDeviceGetMemoryInfo(Gpu* gpu, FakeMemory* memory) {
  *memory = {(gpu->index + 1) * 1024 * mebi, 1000 * mebi, 24 * mebi};
  return success;
}
int nvmlDeviceGetPowerUsage(Gpu* gpu, unsigned* milliwatts) {
  *milliwatts = 123456;
  return gpu->index == 0 ? success : not_supported;
}
int nvmlDeviceGetTemperature(Gpu*, unsigned, unsigned* celsius) {
  *celsius = 41;
  return success;
}
int nvmlDeviceGetUtilizationRates(Gpu* gpu, FakeUtilization* use) {
  *use = {87, 12};
  return gpu->index == 0 ? success : not_supported;
}
// More processes than the first guess allows.
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* gpu, unsigned* count, FakeProcess* processes) {
  const unsigned there = gpu->index == 0 ? 20 : 1;
  const bool fits = *count >= there;
  *count = there;
  if (!fits) return insufficient_size;
  for (unsigned i = 0; i < there; ++i) {
    processes[i] = {100 + i, gpu->index == 0 ? (i + 1) * mebi : ~0ull, 0, 0};
  }
  return success;
}
}
