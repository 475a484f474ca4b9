// Devices and the registry that owns one backend per device: the only process-wide state of the
// core.
#pragma once

#include "core/error.h"

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class Backend;

enum class DeviceKind : uint8_t { reference, cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
  /// "cpu", "reference", "cuda:1".
  std::string str() const;
  /// Parses what str() prints; "cuda" is cuda:0. Throws usage otherwise.
  static Device parse(std::string_view text);
};

inline constexpr Device reference_device{DeviceKind::reference, 0};
inline constexpr Device cpu_device{DeviceKind::cpu, 0};

/// The backend of `device`, made on first use. Throws device when this build or machine lacks it.
Backend& backend_of(Device device);

/// Takes the place of the reference's backend while it lives, on every thread: for tests that watch
/// or change what a backend does.
class ReferenceStandIn {
 public:
  explicit ReferenceStandIn(Backend& backend);
  ~ReferenceStandIn();
  ReferenceStandIn(const ReferenceStandIn&) = delete;
  ReferenceStandIn& operator=(const ReferenceStandIn&) = delete;

 private:
  Backend* replaced_;
};

/// Every device that can be used here, reference and cpu first.
std::vector<Device> available_devices();

}  // namespace whisker

template <>
struct fmt::formatter<whisker::Device> : fmt::formatter<std::string_view> {
  auto format(whisker::Device device, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(device.str(), context);
  }
};
