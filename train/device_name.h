// The names of devices that configurations and --device take.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace whisker {

inline constexpr std::string_view device_names = "auto, cpu, reference, cuda or cuda:N";

/// Nothing for one of device_names, else what may have been meant: "Did you mean 'cuda'?", or "".
std::optional<std::string> device_remedy(const std::string& text);

}  // namespace whisker
