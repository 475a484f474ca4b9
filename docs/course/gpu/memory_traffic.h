// How the first warp of an emulated kernel reaches memory, and in which line of the source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

namespace emulation {

/// ", line 12" of the code, if the program has debugging information and binutils is installed. ""
/// in an atomic function, whose line is none of the kernel.
inline std::string source_line(const void* code) {
  Dl_info program;
  if (code == nullptr || dladdr(code, &program) == 0) return "";
  char command[600], line[600] = "";
  const auto offset =
      static_cast<const char*>(code) - static_cast<const char*>(program.dli_fbase) - 1;
  std::snprintf(command, sizeof command, "addr2line -e '%.500s' 0x%zx 2>/dev/null",
                program.dli_fname, static_cast<size_t>(offset));
  FILE* const pipe = popen(command, "r");
  if (pipe == nullptr) return "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  const char* const colon = read ? std::strrchr(line, ':') : nullptr;
  const int number = colon == nullptr ? 0 : std::atoi(colon + 1);
  const bool is_atomic = read && std::strstr(line, "/gpu.h:") != nullptr;
  return number > 0 && !is_atomic ? ", line " + std::to_string(number) : "";
}

/// What block 0 did: all its threads read, and its first warp asked memory for.
class MemoryTraffic {
 public:
  struct Summary {
    double reads = 0;          // by single threads, from global memory
    double sectors = 0;        // of 32 bytes, in global memory
    double least_sectors = 0;  // had the lanes of each access been neighbours
    int bank_conflicts =
        1;  // the most different words of one bank that one access of the warp needs
    std::string worst_line, conflict_line;
  };

  void clear() { *this = {}; }
  void count(int thread, uintptr_t address, size_t bytes, bool writes, bool is_shared,
             const void* code) {
    if (!writes && !is_shared) ++reads_;
    if (thread >= 32) return;
    Request& request = requests_[{code, visits_[{thread, code}]++}];
    request.is_shared = is_shared;
    request.bytes += bytes;
    request.sectors.push_back(address / 32);
    request.words.push_back(address / 4);
  }

  Summary summary() const {
    Summary summary;
    summary.reads = static_cast<double>(reads_);
    double worst = 1;
    for (const auto& [key, request] : requests_) {
      if (request.is_shared) {
        int of_bank[32] = {};
        for (const uintptr_t word : distinct(request.words)) ++of_bank[word % 32];
        const int most = *std::max_element(of_bank, of_bank + 32);
        if (most <= summary.bank_conflicts) continue;
        summary.bank_conflicts = most;
        summary.conflict_line = source_line(key.first);
      } else if (request.sectors.size() >= 8) {
        const auto count = static_cast<double>(distinct(request.sectors).size());
        const double least =
            std::min(count, std::max(1.0, static_cast<double>(request.bytes) / 32));
        summary.sectors += count;
        summary.least_sectors += least;
        if (count / least <= worst) continue;
        worst = count / least;
        summary.worst_line = source_line(key.first);
      }
    }
    return summary;
  }

 private:
  struct Request {
    bool is_shared = false;
    size_t bytes = 0;
    std::vector<uintptr_t> sectors = {}, words = {};
  };
  static std::vector<uintptr_t> distinct(std::vector<uintptr_t> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  // The k-th time that the lanes of the warp run the same access: (code, k).
  std::map<std::pair<const void*, int>, Request> requests_;
  std::map<std::pair<int, const void*>, int> visits_;
  size_t reads_ = 0;
};

}  // namespace emulation
