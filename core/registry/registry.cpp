// One backend per device, made on first use and kept for the life of the process.
#include "core/backend/registry.h"

#include "core/cpu/cpu_backend.h"
#include "core/nvidia/cuda_library.h"
#include "core/reference/reference_backend.h"
#include "core/work_progress.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

namespace whisker {
namespace {

// A backend is looked up for every operator: a load when it is there, a lock to make it.
Backend& cuda_backend_of(Device device) {
  constexpr int most = 64;
  static std::array<std::atomic<Backend*>, most> backends;
  static std::mutex making;
  if (device.index < 0 || device.index >= most) make_cuda_backend(device.index);  // throws
  std::atomic<Backend*>& slot = backends[static_cast<size_t>(device.index)];
  if (Backend* const made = slot.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(making);
  const WaitScope starts(Waiting::start);
  if (!slot.load()) slot.store(make_cuda_backend(device.index).release());
  return *slot.load();
}

// Backends are never destroyed: storages in static objects may outlive main().
std::atomic<Backend*>& reference_slot() {
  static std::atomic<Backend*> slot{make_reference_backend().release()};
  return slot;
}

}  // namespace

// Every operator asks for its backend.
Backend& backend_of(Device device) {
  count_progress();
  switch (device.kind) {
    case DeviceKind::reference:
      return *reference_slot().load(std::memory_order_acquire);
    case DeviceKind::cpu: {
      static Backend* const cpu = make_cpu_backend().release();
      return *cpu;
    }
    case DeviceKind::cuda:
      return cuda_backend_of(device);
  }
  fail(ErrorKind::internal, "backend_of: device kind {}", static_cast<int>(device.kind));
}

ReferenceStandIn::ReferenceStandIn(Backend& backend)
    : replaced_(reference_slot().exchange(&backend)) {}

ReferenceStandIn::~ReferenceStandIn() {
  reference_slot().store(replaced_);
}

std::vector<Device> available_devices() {
  std::vector<Device> devices = {reference_device, cpu_device};
  for (int i = 0; i < cuda_device_count(); ++i) devices.push_back({DeviceKind::cuda, i});
  return devices;
}

}  // namespace whisker
