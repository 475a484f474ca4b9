#include "core/tensor/device.h"

#include <charconv>

namespace whisker {

std::string Device::str() const {
  switch (kind) {
    case DeviceKind::reference:
      return "reference";
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return fmt::format("cuda:{}", index);
  }
  return "?";
}

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu_device;
  if (text == "reference") return reference_device;
  if (text == "cuda") return {DeviceKind::cuda, 0};
  if (text.starts_with("cuda:")) {
    const std::string_view digits = text.substr(5);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) {
      return {DeviceKind::cuda, index};
    }
  }
  fail(ErrorKind::usage, "device: expected cpu, reference, cuda or cuda:N, got '{}'", text);
}

}  // namespace whisker
