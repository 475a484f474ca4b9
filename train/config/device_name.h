// Device names that configurations and --device accept.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace whisker {

inline constexpr std::string_view device_names = "auto, cpu, reference, cuda or cuda:N";

/// Nothing for one of device_names, else a suggestion: "Did you mean 'cuda'?", or "".
std::optional<std::string> device_remedy(const std::string& text);

}  // namespace whisker
