#include "train/config/device_name.h"

#include "core/error.h"
#include "core/io/lower_ascii.h"
#include "core/io/text.h"
#include "core/tensor/device.h"

#include <algorithm>

namespace whisker {
namespace {

bool is_device_name(const std::string& text) {
  if (text == "auto") return true;
  try {
    Device::parse(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> device_list(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::optional<std::string> device_remedy(const std::string& text) {
  if (is_device_name(text)) return std::nullopt;
  std::string meant = lower_ascii(text);
  if (meant.starts_with("gpu")) meant.replace(0, 3, "cuda");
  if (!is_device_name(meant)) {
    meant = nearest_name(meant, std::vector<std::string>{"auto", "cpu", "cuda", "reference"});
  }
  return meant.empty() ? std::string() : fmt::format("Did you mean '{}'?", meant);
}

}  // namespace whisker
