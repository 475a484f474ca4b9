#include "core/system_memory.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace whisker {

SystemMemory system_memory() {
  SystemMemory memory;
  const auto take = [](const std::string& line, std::string_view key, int64_t& bytes) {
    if (line.starts_with(key)) bytes = std::atoll(line.c_str() + key.size()) * 1024;
  };
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    take(line, "MemTotal:", memory.total);
    take(line, "MemAvailable:", memory.available);
  }
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident_pages = 0;
  if (statm >> pages >> resident_pages) memory.resident = resident_pages * sysconf(_SC_PAGESIZE);
  return memory;
}

}  // namespace whisker
