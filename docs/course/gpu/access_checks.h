// Checks every access to memory of an emulated kernel (block_emulation.h):
//   - is it inside an array, and may the kernel write there?
//   - has another thread written or read there, without a barrier that orders the two?
//   - has anybody written there at all?
#pragma once

#include "memory_traffic.h"

#include <cstring>

namespace emulation {

enum class Access { input, output, updated };  // read only; not written yet; both
// The most telling first: one mistake is often found in several ways.
enum class Cause {
  out_of_range,
  lost_update,
  missing_barrier,
  race,
  divergent,
  writes_input,
  not_written
};
struct Finding {
  Cause cause;
  std::string text;
};

constexpr int nobody = -1, several = -2;

/// Who accessed a byte last, and when. The intervals between a block's barriers are numbered
/// through all blocks, and `exchanges` counts those of the thread's warp.
struct Visit {
  int thread = nobody, interval = 0, exchanges = 0;
  bool atomic = false;
  const void* code = nullptr;
};
struct Cell {
  Visit write, read;
  bool written = false;
};
struct Array {
  std::string name;
  uintptr_t begin = 0, end = 0;
  size_t element_bytes = 1;
  Access access = Access::updated;
  // One per byte; an access of 4 bytes and more uses each fourth one.
  std::vector<Cell> cells = {};

  size_t size() const { return (end - begin) / element_bytes; }
};

class AccessChecks {
 public:
  std::map<uintptr_t, Array> arrays;  // by where they begin
  Array shared{"shared memory"};
  std::vector<Finding> findings;  // the first of each cause
  // Where the launch is; block_emulation.h keeps them.
  int block = 0, threads_of_block = 1, thread = nobody, exchanges = 0;
  int interval = 0, first_interval_of_launch = 0, first_interval_of_block = 0;
  unsigned threads_in_x = 0;  // 0: the block has one axis
  bool counts_traffic = false;
  MemoryTraffic traffic;

  /// One access by `thread`; false where the kernel must not go on. `is_known_memory`: the stack,
  /// constants.
  bool check(const void* pointer, size_t bytes, bool writes, bool atomic, bool is_known_memory,
             const void* code) {
    settle_doubt();
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Array* const array = find(address);
    if (array == nullptr && is_known_memory) return true;
    if (array == nullptr || address + bytes > array->end)
      return out_of_range(address, writes, code);
    if (writes && array->access == Access::input) {
      return add(Cause::writes_input,
                 [&] { return did("writes", *array, address, code) + ", which is an input"; });
    }
    if (counts_traffic && block == 0)
      traffic.count(thread, address, bytes, writes, array == &shared, code);
    const Visit now{block * threads_of_block + thread, interval, exchanges, atomic, code};
    const size_t step = std::min<size_t>(bytes, 4);
    for (size_t i = 0; i < bytes; i += step) {
      Cell& cell = array->cells[address - array->begin + i];
      if (is_concurrent(*array, cell.write, atomic)) {
        const bool has_read = cell.read.interval == interval &&
                              (cell.read.thread == now.thread || cell.read.thread == several);
        conflict({has_read && writes ? Cause::lost_update : cause_of(*array), array, address,
                  cell.write, now.thread, writes, true, code},
                 bytes);
      } else if (writes && is_concurrent(*array, cell.read, atomic)) {
        conflict({cause_of(*array), array, address, cell.read, now.thread, true, false, code},
                 bytes);
      }
      const bool written =
          array == &shared ? cell.write.interval >= first_interval_of_block : cell.written;
      if (!written && (!writes || atomic)) {
        add(Cause::not_written, [&] {
          return did("reads", *array, address, code) + ", before any thread has written it";
        });
      }
      if (writes) {
        cell.write = now;
        cell.written = true;
      } else if (cell.read.interval == interval && cell.read.thread != now.thread) {
        cell.read.thread = several;
      } else {
        cell.read = now;
      }
    }
    return true;
  }

  /// Always false. `text` is called if it is the first of its cause.
  template <class Text>
  bool add(Cause cause, Text text) {
    if (!is_known(cause)) findings.push_back({cause, text()});
    return false;
  }

  /// A write of several threads is harmless if all write what is there. Seen at the thread's next
  /// step.
  void settle_doubt() {
    if (doubt_.array == nullptr) return;
    const Conflict doubt = std::exchange(doubt_, Conflict{});
    const auto* const now = reinterpret_cast<const char*>(doubt.address);
    if (doubt.before.compare(0, std::string::npos, now, doubt.before.size()) == 0) return;
    add(doubt.cause, [&] { return text_of(doubt); });
  }

  /// "thread 3 of block 1".
  std::string named(int number) const {
    const int in_block = number % threads_of_block;
    std::string text = "thread " + std::to_string(in_block);
    if (threads_in_x != 0) {
      const int x = static_cast<int>(threads_in_x);
      text = "thread (" + std::to_string(in_block % x) + "," + std::to_string(in_block / x) + ")";
    }
    return text + " of block " + std::to_string(number / threads_of_block);
  }
  std::string named_now() const { return named(block * threads_of_block + thread); }

  void start_launch() {
    findings.clear();
    if (counts_traffic) traffic.clear();
    shared.cells.resize(shared.end - shared.begin);
    first_interval_of_launch = interval + 1;
  }

 private:
  struct Conflict {
    Cause cause = Cause::race;
    const Array* array = nullptr;
    uintptr_t address = 0;
    Visit other = {};
    int thread = nobody;
    bool writes = false, other_writes = false;
    const void* code = nullptr;
    std::string before = {};
  };

  bool is_known(Cause cause) const {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.cause == cause; });
  }
  Array* find(uintptr_t address) {
    if (address >= shared.begin && address < shared.end) return &shared;
    const auto after = arrays.upper_bound(address);
    if (after == arrays.begin()) return nullptr;
    Array& array = std::prev(after)->second;
    return address < array.end ? &array : nullptr;
  }
  static std::string element(const Array& array, uintptr_t address) {
    const auto offset = static_cast<long long>(address) - static_cast<long long>(array.begin);
    if (array.name == "shared memory") return array.name;
    return array.name + "[" + std::to_string(offset / static_cast<long long>(array.element_bytes)) +
           "]";
  }
  std::string did(const char* what, const Array& array, uintptr_t address, const void* code) const {
    return named_now() + " " + what + " " + element(array, address) + source_line(code);
  }
  bool out_of_range(uintptr_t address, bool writes, const void* code) {
    return add(Cause::out_of_range, [&] {
      const Array* nearest = nullptr;
      uintptr_t distance = 1 << 20;
      for (const auto& [begin, array] : arrays) {
        const uintptr_t here = address < begin ? begin - address : address - array.end;
        if (here < distance) distance = here, nearest = &array;
      }
      const char* const what = writes ? "writes" : "reads";
      if (nearest == nullptr)
        return named_now() + " " + what + " outside all arrays" + source_line(code);
      return did(what, *nearest, address, code) + ", but " + nearest->name + " has " +
             std::to_string(nearest->size()) + (nearest->size() == 1 ? " element" : " elements") +
             ": check the index first";
    });
  }
  // Whether nothing orders this thread's access and `other`.
  bool is_concurrent(const Array& array, const Visit& other, bool atomic) const {
    if (other.thread == nobody || other.interval < first_interval_of_launch ||
        (atomic && other.atomic))
      return false;
    if (other.interval < first_interval_of_block) return &array != &shared;  // another block's
    if (other.interval != interval || other.thread == block * threads_of_block + thread)
      return false;
    return other.thread == several || other.thread % threads_of_block / 32 != thread / 32 ||
           other.exchanges == exchanges;
  }
  void conflict(Conflict conflict, size_t bytes) {
    if (is_known(conflict.cause)) return;
    if (!conflict.writes || !conflict.other_writes) {
      add(conflict.cause, [&] { return text_of(conflict); });
      return;
    }
    conflict.before.assign(reinterpret_cast<const char*>(conflict.address), bytes);
    doubt_ = std::move(conflict);
  }
  std::string text_of(const Conflict& conflict) const {
    const std::string here = source_line(conflict.code), there = source_line(conflict.other.code);
    const std::string what = element(*conflict.array, conflict.address);
    const std::string other =
        conflict.other.thread == several ? "others" : named(conflict.other.thread);
    if (conflict.cause == Cause::lost_update) {
      return named(conflict.thread) + " and " + other + " both read, change and write " + what +
             here + ": one change is lost. Give it to one thread alone, or use atomicAdd";
    }
    return named(conflict.thread) + (conflict.writes ? " writes " : " reads ") + what + here +
           ", and " + other +
           (conflict.other_writes              ? " writes it"
            : conflict.other.thread == several ? " read it"
                                               : " reads it") +
           (here == there ? "" : there) + ". Nothing orders the two" +
           (conflict.array == &shared ? ": a __syncthreads() is missing" : "");
  }
  Cause cause_of(const Array& array) const {
    return &array == &shared ? Cause::missing_barrier : Cause::race;
  }

  Conflict doubt_;  // of two writes, if it has an array
};

}  // namespace emulation
