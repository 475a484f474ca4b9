// What tests need that edit a file and set its time of modification back.
#pragma once

#include "data/files/file_walk.h"
#include "tests/support/temporary_folder.h"

#include <chrono>
#include <thread>

namespace whisker::test {

/// Whether the times of changes 20 ms apart differ, after as long; some file systems' clocks tick
/// in seconds.
inline bool has_fine_change_times() {
  const TemporaryFolder folder;
  folder.write("a");
  const auto first = find_file(folder.path(), "a");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  folder.write("a");
  const auto second = find_file(folder.path(), "a");
  return first && second && first->modified_ns != second->modified_ns;
}

}  // namespace whisker::test
