// A handler may call no malloc, so the names are in slots of fixed size. The lock is held while a
// file is created, and never released before the end: else another thread could create one after
// they are removed. The thread of the handler holds no lock when it is interrupted: it waits for
// signals and does nothing else (Note [Signals and borrowed stacks]). A name that is gone already
// does no harm: nothing else has it.
#include "core/io/temporaries.h"

#include <array>
#include <mutex>
#include <string>

#include <unistd.h>

namespace whisker {
namespace {

struct TemporarySlot {
  bool filled = false;
  std::array<char, 4096> name{};
};
std::array<TemporarySlot, 16> temporary_slots;
std::mutex temporary_slots_mutex;

}  // namespace

bool create_temporary(const std::filesystem::path& path, const std::function<bool()>& create) {
  const std::string& name = path.native();
  const std::lock_guard lock(temporary_slots_mutex);
  if (!create()) return false;
  for (TemporarySlot& slot : temporary_slots) {
    if (name.size() >= slot.name.size()) break;
    if (slot.filled) continue;
    name.copy(slot.name.data(), name.size());
    slot.name[name.size()] = '\0';
    slot.filled = true;
    break;
  }
  return true;
}

void forget_temporary(const std::filesystem::path& path) {
  const std::lock_guard lock(temporary_slots_mutex);
  for (TemporarySlot& slot : temporary_slots) {
    if (!slot.filled || path.native() != slot.name.data()) continue;
    slot.filled = false;
    return;
  }
}

void remove_temporaries() {
  temporary_slots_mutex.lock();
  for (size_t i = temporary_slots.size(); i-- > 0;) {  // what is in a folder before the folder
    const TemporarySlot& slot = temporary_slots[i];
    if (!slot.filled) continue;
    if (::unlink(slot.name.data()) != 0) ::rmdir(slot.name.data());  // not one with files in it
  }
}

}  // namespace whisker
