// A handler may take no lock and call no malloc, so the names are in slots of fixed size. A name
// that is gone already does no harm: nothing else has it.
#include "core/io/temporaries.h"

#include <array>
#include <atomic>
#include <string>

#include <unistd.h>

namespace whisker {
namespace {

struct TemporarySlot {
  enum State : int { free, changing, filled };
  std::atomic<int> state{free};
  std::array<char, 4096> name{};
};
std::array<TemporarySlot, 16> temporary_slots;
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

void remember_temporary(const std::filesystem::path& path) {
  const std::string& name = path.native();
  for (TemporarySlot& slot : temporary_slots) {
    if (name.size() >= slot.name.size()) return;
    int expected = TemporarySlot::free;
    if (!slot.state.compare_exchange_strong(expected, TemporarySlot::changing)) continue;
    name.copy(slot.name.data(), name.size());
    slot.name[name.size()] = '\0';
    slot.state = TemporarySlot::filled;
    return;
  }
}

void forget_temporary(const std::filesystem::path& path) {
  for (TemporarySlot& slot : temporary_slots) {
    int expected = TemporarySlot::filled;
    while (!slot.state.compare_exchange_weak(expected, TemporarySlot::changing)) {
      if (expected == TemporarySlot::free) break;
      expected = TemporarySlot::filled;  // another thread looks at it
    }
    if (expected == TemporarySlot::free) continue;
    const bool found = path.native() == slot.name.data();
    slot.state = found ? TemporarySlot::free : TemporarySlot::filled;
    if (found) return;
  }
}

void remove_temporaries() {
  for (size_t i = temporary_slots.size(); i-- > 0;) {  // what is in a folder before the folder
    const TemporarySlot& slot = temporary_slots[i];
    if (slot.state == TemporarySlot::free) continue;
    if (::unlink(slot.name.data()) != 0) ::rmdir(slot.name.data());  // not one with files in it
  }
}

}  // namespace whisker
