#include "train/config/memory_limit.h"

#include "core/backend/backend.h"
#include "core/io/text.h"

#include <charconv>
#include <system_error>

namespace whisker {

std::optional<int64_t> memory_limit(std::string_view text, int64_t total) {
  if (text.empty()) return 0;
  double share = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, share, std::chars_format::fixed);
  const bool is_share = error == std::errc() && end == last && share > 0 && share <= 1;
  const std::optional<int64_t> bytes =
      is_share ? static_cast<int64_t>(share * static_cast<double>(total)) : parse_bytes(text);
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

bool preallocates(MemoryMode mode, Device device) {
  return mode == MemoryMode::preallocate && device.kind == DeviceKind::cuda;
}

void limit_memory(const MemoryConfig& config, Device device) {
  const bool whole = preallocates(config.mode, device);
  if (config.limit.empty() && !whole) return;
  Backend& backend = backend_of(device);
  const MemorySummary memory = backend.memory_summary();
  MemoryOptions options{.limit_bytes = memory_limit(config.limit, memory.total).value_or(0)};
  if (whole) {
    options.preallocate_bytes =
        options.limit_bytes > 0
            ? options.limit_bytes
            : static_cast<int64_t>(0.9 * static_cast<double>(memory.free + memory.cache()));
  }
  backend.set_memory_options(options);
}

}  // namespace whisker
