// Any bytes as a configuration give a config or one usage error; what was accepted prints as
// text that reads back to the same.
#include "core/error.h"
#include "train/config/config.h"

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  const std::string text(reinterpret_cast<const char*>(data), size);
  constexpr size_t most_input =
      1 << 16;  // printed quotes and defaults stay below the reader's 1 MiB
  if (size > most_input) return 0;
  std::string printed;
  try {
    printed = print_config(read_config_text(text, "fuzz"));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) std::abort();
    return 0;
  }
  if (print_config(read_config_text(printed, "printed")) != printed) std::abort();
  return 0;
}
