#include "train/config/device_name.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/tensor/device.h"

#include <algorithm>
#include <cctype>
#include <vector>

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

std::optional<std::string> device_remedy(const std::string& text) {
  if (is_device_name(text)) return std::nullopt;
  std::string meant = text;
  for (char& c : meant) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (meant.starts_with("gpu")) meant.replace(0, 3, "cuda");
  if (!is_device_name(meant)) {
    meant = nearest_name(meant, std::vector<std::string>{"auto", "cpu", "cuda", "reference"});
  }
  return meant.empty() ? std::string() : fmt::format("Did you mean '{}'?", meant);
}

}  // namespace whisker
