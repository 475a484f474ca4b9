#include "core/backend/memory_summary.h"

#include "core/backend/backend.h"
#include "core/io/text.h"
#include "core/memory/host_memory.h"

#include <algorithm>

namespace whisker {
namespace {

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

std::string line(const char* name, int64_t bytes, const std::string& note) {
  std::string text = fmt::format("  {:<14} {:>10}  {}", name, bytes_text(bytes), note);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

// Memory that was taken but not yet touched is not resident: the rest of the process counts as
// nothing then, and what is missing belongs to nobody else.
MemorySummary Backend::memory_summary() const {
  const SystemMemory system = system_memory();
  MemorySummary summary{.stats = memory_stats()};
  summary.context = std::max<int64_t>(0, system.resident - summary.stats.reserved);
  const int64_t ours = summary.stats.reserved + summary.context;
  summary.others = std::max<int64_t>(0, system.total - system.available - ours);
  summary.free = std::max<int64_t>(0, system.total - ours - *summary.others);
  summary.total = summary.used() + summary.free;
  return summary;
}

MemorySummary memory_summary(Device device) {
  return backend_of(device).memory_summary();
}

std::string to_text(const MemorySummary& summary, Device device) {
  std::string holders;
  for (int i = 0; i < memory_category_count; ++i) {
    const int64_t held = summary.stats.by_category[static_cast<size_t>(i)];
    if (held == 0) continue;
    holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ",
                           name_of(static_cast<MemoryCategory>(i)), bytes_text(held));
  }
  const bool gpu = device.kind == DeviceKind::cuda;
  std::string text = fmt::format("memory of {}: {} of {} used\n", device,
                                 bytes_text(summary.used()), bytes_text(summary.total));
  text += line("tensors", summary.stats.allocated,
               fmt::format("{}{}peak {}", holders, holders.empty() ? "" : "; ",
                           bytes_text(summary.stats.peak)));
  text += line("unused cache", summary.cache(),
               summary.graph_pool == 0
                   ? std::string()
                   : fmt::format("captured graphs keep {}", bytes_text(summary.graph_pool)));
  text += line("context", summary.context,
               std::string(gpu ? "driver, kernels, libraries" : "the program and its libraries") +
                   (summary.others ? "" : ", and other processes"));
  if (summary.others) text += line("others", *summary.others, "other processes");
  return text + line("free", summary.free, "");
}

}  // namespace whisker
