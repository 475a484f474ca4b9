// Peak resident memory of one action, in a process of its own.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {

/// Sanitizers keep freed memory, shadow it, and slow everything down.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_instrumented = true;
#else
inline constexpr bool is_instrumented = false;
#endif

inline int64_t peak_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return 0;
}

/// Bytes by which `action` raises the peak of a forked child.
template <class Action>
int64_t peak_growth_bytes(Action&& action) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::malloc_trim(0);                               // give back what earlier work freed
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is now what is resident
    const int64_t before = peak_resident_kib();
    action();
    const int64_t growth = (peak_resident_kib() - before) * 1024;
    const bool told = ::write(ends[1], &growth, sizeof growth) == sizeof growth;
    ::_exit(told ? 0 : 1);
  }
  int64_t growth = -1;
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  if (status == 0) {
    EXPECT_EQ(::read(ends[0], &growth, sizeof growth), ssize_t{sizeof growth});
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return growth;
}

}  // namespace whisker
