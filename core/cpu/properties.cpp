// The machine as the CPU backend sees it. /proc is read where it is there; a missing fact is left
// out rather than guessed.
#include "core/cpu/cpu_kernels.h"
#if WHISKER_ONEDNN
#include "core/cpu/onednn/dnnl_api.h"
#else
#include <cblas.h>
#endif

#include "core/cpu/support/parallel.h"
#include "core/io/text.h"

#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace whisker::cpu {
namespace {

// The value of the first "key : value" line of a file like /proc/cpuinfo.
std::string first_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

// Vector instructions, weakest first.
std::string instructions() {
  std::string text;
  const auto add = [&](bool present, const char* name) {
    if (present) text += (text.empty() ? "" : ", ") + std::string(name);
  };
#if defined(__x86_64__)
  add(true, "SSE2");
  add(__builtin_cpu_supports("sse4.2"), "SSE4.2");
  add(__builtin_cpu_supports("avx"), "AVX");
  add(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), "AVX2");
  add(__builtin_cpu_supports("avx512f"), "AVX-512");
  add(__builtin_cpu_supports("avx512vnni"), "VNNI");
  // g++ before 13 and clang before 16 do not know every name: the kernel's flags do.
  add(first_value("/proc/cpuinfo", "flags").find(" avx512_bf16") != std::string::npos, "BF16");
  add(first_value("/proc/cpuinfo", "flags").find(" amx_bf16") != std::string::npos, "AMX");
#elif defined(__aarch64__)
  const unsigned long present = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  add((present & HWCAP_ASIMD) != 0, "NEON");
  add((present & HWCAP_ASIMDHP) != 0, "FP16");
  add((present & HWCAP_SVE) != 0, "SVE");
  add((more & HWCAP2_BF16) != 0, "BF16");
#endif
  return text;
}

}  // namespace

std::vector<BackendProperty> cpu_properties() {
  std::vector<BackendProperty> facts;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) facts.push_back({name, std::move(value)});
  };
  add("processor", first_value("/proc/cpuinfo", "model name"));
  add("instructions", instructions());
  add("cores", fmt::format("{}", std::thread::hardware_concurrency()));
  add("threads", fmt::format("{}", most_threads()));
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page_bytes > 0) {
    add("memory", human_bytes(static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes)));
  }
#if WHISKER_ONEDNN
  add("computes with", std::string(dnnl_version_text()) + " and own loops");
#else
  add("computes with", std::string(openblas_get_config()) + " and own loops");
#endif
  add("types", "f32, bf16");
  return facts;
}

}  // namespace whisker::cpu
