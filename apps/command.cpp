// Results go through here, so that a full disk or a closed pipe is an error and not silence.
#include "apps/command.h"

#include "core/error.h"

#include <cstdio>

namespace whisker {

void print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorKind::disk, "standard output: cannot be written (full or closed)");
  }
}

}  // namespace whisker
