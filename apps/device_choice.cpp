#include "apps/device_choice.h"

#include "apps/terminal.h"
#include "train/device_choice.h"

namespace whisker {

Device chosen_device(const std::string& text, const Invocation& invocation) {
  const DeviceChoice choice = choose_device(text);
  if (!choice.note.empty() && invocation.verbosity >= 0) tell(choice.note + "\n");
  return choice.device;
}

}  // namespace whisker
