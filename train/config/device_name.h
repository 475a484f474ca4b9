// Device names that configurations and --device accept.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

inline constexpr std::string_view device_names = "auto, cpu, reference, cuda or cuda:N";

/// The names of a configuration's list, one device per rank: "cuda:0,cuda:1".
std::vector<std::string> device_list(const std::string& text);

/// Nothing for one of device_names, else a suggestion: "Did you mean 'cuda'?", or "".
std::optional<std::string> device_remedy(const std::string& text);

}  // namespace whisker
