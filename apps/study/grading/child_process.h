// A program in a process of its own, under limits of time and memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

struct ChildLimits {
  int seconds = 10;
  int64_t memory = 0;  ///< bytes of address space; 0: no limit
};

struct ChildEnd {
  int code = 0;    ///< exit code
  int signal = 0;  ///< that ended it
  bool timed_out = false;
  bool not_found = false;  ///< there is no such program
};

/// Thrown when a signal asked this program to stop (apps/terminal/signals.h).
struct Stopped {
  int signal = 0;
};

/// Starts `words`, the first looked up in PATH, and waits. stdout and stderr go to the file
/// `output`, up to 1 MiB; stdin is empty. Throws device where no process can be started, and
/// Stopped, after it ended the child.
ChildEnd run_child(std::vector<std::string> words, const std::filesystem::path& output,
                   const ChildLimits& limits);

}  // namespace whisker
