// A handler may take no lock and call no malloc, so the names are in slots of fixed size, and it
// reads only those that are complete. A name that is gone already does no harm: nothing else has
// it.
#include "core/io/temporaries.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include <unistd.h>

namespace whisker {
namespace {

struct TemporarySlot {
  std::atomic<bool> filled{false};
  std::array<char, 4096> name{};
};
std::array<TemporarySlot, 16> temporary_slots;
std::mutex temporary_slots_mutex;  // held while slots are filled and freed
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

void remember_temporary(const std::filesystem::path& path) {
  const std::string& name = path.native();
  const std::lock_guard lock(temporary_slots_mutex);
  for (TemporarySlot& slot : temporary_slots) {
    if (name.size() >= slot.name.size()) return;
    if (slot.filled) continue;
    name.copy(slot.name.data(), name.size());
    slot.name[name.size()] = '\0';
    slot.filled = true;
    return;
  }
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
  for (size_t i = temporary_slots.size(); i-- > 0;) {  // what is in a folder before the folder
    const TemporarySlot& slot = temporary_slots[i];
    if (!slot.filled) continue;
    if (::unlink(slot.name.data()) != 0) ::rmdir(slot.name.data());  // not one with files in it
  }
}

}  // namespace whisker
