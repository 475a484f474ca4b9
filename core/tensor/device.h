// What names a device.
#pragma once

#include "core/error.h"

#include <string>
#include <string_view>

namespace whisker {

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

}  // namespace whisker

template <>
struct fmt::formatter<whisker::Device> : fmt::formatter<std::string_view> {
  auto format(whisker::Device device, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(device.str(), context);
  }
};
