// Runs a kernel on a CPU, block after block. The threads of a block are fibers: each runs to the
// next barrier, in forward, reverse or random order. The kernel is compiled with
// -fsanitize=thread,bounds, whose calls before each access of memory come here (at the end) instead
// of to the compiler's libraries, and are checked by access_checks.h. One source of a program
// includes this.
#pragma once

#include "access_checks.h"
#include "gpu.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

// The ends of the section of __shared__, which the linker knows. A kernel need not have shared
// memory.
__attribute__((section("block_shared"), used)) static char always_there[16];
extern "C" char __start_block_shared, __stop_block_shared, __executable_start, _end;

namespace emulation {

enum class Order { forward, reverse, random };
inline const char* name_of(Order order) {
  return order == Order::forward ? "forward" : order == Order::reverse ? "reverse" : "random";
}

class Block {
 public:
  AccessChecks checks;

  /// Calls `kernel` for each thread of the grid. Stops at the first access that must not be made.
  template <class Kernel>
  void run(dim3 grid, dim3 block, Order order, Kernel& kernel) {
    kernel_ = &kernel;
    call_kernel_ = [](void* k) { (*static_cast<Kernel*>(k))(); };
    blockDim = block, gridDim = grid;
    const size_t threads = size_t{block.x} * block.y * block.z;
    const unsigned blocks = grid.x * grid.y * grid.z;
    checks.counts_traffic = order == Order::forward;
    start_launch(threads);
    std::vector<size_t> turns(threads);
    uint32_t random = 7;
    for (unsigned n = 0; n < blocks && !stopped_; ++n) {
      const unsigned number = order == Order::reverse ? blocks - 1 - n : n;
      checks.block = static_cast<int>(number);
      blockIdx = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
      for (size_t i = 0; i < threads; ++i) turns[i] = order == Order::reverse ? threads - 1 - i : i;
      start_block();
      do {
        for (size_t i = threads; order == Order::random && i > 1; --i) {
          random = random * 1664525u + 1013904223u;
          std::swap(turns[i - 1], turns[random / 256 % i]);
        }
        for (const size_t i : turns) {
          if (fibers_[i].state == State::runs && !stopped_) resume(static_cast<int>(i));
        }
      } while (!stopped_ && (release_warps() || release_block()));
    }
    munmap(stacks_, threads * stack_bytes);
  }

  // What the kernel calls. Its thread goes on when the others have come there, too.
  void wait_for_block(int line) {
    in_kernel_ = false;
    fibers_[self()].barrier_line = line;
    leave(State::at_barrier);
  }
  uint64_t exchange(unsigned mask, uint64_t bits, int from) {
    in_kernel_ = false;
    Fiber& fiber = fibers_[self()];
    const auto slot = static_cast<size_t>(fiber.exchanges % 2);  // the last one may still be read
    fiber.posted[slot] = bits;
    fiber.mask = mask;
    leave(State::in_exchange);
    in_kernel_ = false;
    checks.exchanges = ++fiber.exchanges;
    const size_t source = self() / 32 * 32 + static_cast<size_t>(from);
    const uint64_t received = source < fibers_.size() ? fibers_[source].posted[slot] : bits;
    in_kernel_ = true;
    return received;
  }
  unsigned lane() const { return static_cast<unsigned>(checks.thread) % 32; }

  // An access of the kernel. This code is instrumented like the kernel, so that it would call
  // itself.
  __attribute__((no_sanitize("thread"))) void access(const void* pointer, size_t bytes, bool writes,
                                                     bool atomic, const void* code) {
    if (!in_kernel_) return;
    in_kernel_ = false;
    check(pointer, bytes, writes, atomic, code);
    in_kernel_ = true;
  }
  void index_outside(unsigned long index, unsigned line) {
    if (!in_kernel_) return;
    in_kernel_ = false;
    stopped_ = true;
    checks.add(Cause::out_of_range, [&] {
      return checks.named_now() + " uses index " + std::to_string(static_cast<long>(index)) +
             ", which its array does not have, line " + std::to_string(line) +
             ": check the index first";
    });
    leave(State::ended);
  }

 private:
  static constexpr size_t stack_bytes = 64 << 10;
  enum class State { runs, at_barrier, in_exchange, ended };
  struct Fiber {
    ucontext_t context;
    State state;
    int barrier_line, exchanges;
    unsigned mask;
    uint64_t posted[2];
  };

  size_t self() const { return static_cast<size_t>(checks.thread); }

  void start_launch(size_t threads) {
    fibers_ = std::vector<Fiber>(threads);
    stacks_ = static_cast<char*>(mmap(nullptr, threads * stack_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &callers_stack_, &callers_stack_bytes_);
    pthread_attr_destroy(&attributes);
    checks.threads_of_block = static_cast<int>(threads);
    checks.threads_in_x = blockDim.y > 1 ? blockDim.x : 0;
    checks.shared.begin = reinterpret_cast<uintptr_t>(&__start_block_shared);
    checks.shared.end = reinterpret_cast<uintptr_t>(&__stop_block_shared);
    checks.start_launch();
    stopped_ = false;
  }

  void start_block() {
    std::memset(reinterpret_cast<void*>(checks.shared.begin), 0xff,
                checks.shared.end - checks.shared.begin);
    checks.first_interval_of_block = ++checks.interval;
    for (size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      fiber.state = State::runs;
      fiber.exchanges = 0;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stacks_ + i * stack_bytes;
      fiber.context.uc_stack.ss_size = stack_bytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, start_fiber, 0);
    }
  }
  static void start_fiber();

  void resume(int thread) {
    const auto n = static_cast<unsigned>(thread);
    checks.thread = thread;
    checks.exchanges = fibers_[n].exchanges;
    threadIdx = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
    swapcontext(&scheduler_, &fibers_[n].context);
    checks.thread = nobody;
  }
  void leave(State state) {
    checks.settle_doubt();
    fibers_[self()].state = state;
    swapcontext(&fibers_[self()].context, &scheduler_);
    in_kernel_ = true;
  }

  void check(const void* pointer, size_t bytes, bool writes, bool atomic, const void* code) {
    const auto is_in = [pointer](const void* begin, size_t size) {
      return pointer >= begin && pointer < static_cast<const char*>(begin) + size;
    };
    const bool known = is_in(stacks_, fibers_.size() * stack_bytes) ||
                       is_in(callers_stack_, callers_stack_bytes_) ||
                       is_in(&__executable_start, static_cast<size_t>(&_end - &__executable_start));
    if (checks.check(pointer, bytes, writes, atomic, known, code)) return;
    stopped_ = true;
    leave(State::ended);
  }

  // Lets those warps go on whose lanes have all come to their exchange.
  bool release_warps() {
    bool released = false;
    for (size_t first = 0; first < fibers_.size(); first += 32) {
      const size_t lanes = std::min<size_t>(32, fibers_.size() - first);
      unsigned waiting = 0, wanted = 0;
      for (size_t i = 0; i < lanes; ++i) {
        if (fibers_[first + i].state != State::in_exchange) continue;
        waiting |= 1u << i;
        wanted |= fibers_[first + i].mask;
      }
      if (lanes < 32) wanted &= (1u << lanes) - 1;
      if (waiting == 0 || (wanted & ~waiting) != 0) continue;
      released = true;
      for (size_t i = first; i < first + lanes; ++i) {
        if (fibers_[i].state == State::in_exchange) fibers_[i].state = State::runs;
      }
    }
    return released;
  }

  // Lets the block go on when all its threads are at the same barrier; false at its end.
  bool release_block() {
    const auto first = [this](auto is) {
      return std::find_if(fibers_.begin(), fibers_.end(), is) - fibers_.begin();
    };
    const auto none = static_cast<std::ptrdiff_t>(fibers_.size());
    const int base = checks.block * checks.threads_of_block;
    const auto in_exchange = first([](const Fiber& f) { return f.state == State::in_exchange; });
    const auto waiting = first([](const Fiber& f) { return f.state == State::at_barrier; });
    if (in_exchange != none) {
      stopped_ = true;
      return checks.add(Cause::divergent, [&] {
        return checks.named(base + static_cast<int>(in_exchange)) +
               " waits for lanes of its warp that never come";
      });
    }
    if (waiting == none) return false;
    const int line = fibers_[static_cast<size_t>(waiting)].barrier_line;
    const auto elsewhere = first(
        [&](const Fiber& f) { return f.state != State::at_barrier || f.barrier_line != line; });
    if (elsewhere != none) {
      const Fiber& other = fibers_[static_cast<size_t>(elsewhere)];
      stopped_ = true;
      return checks.add(Cause::divergent, [&] {
        return checks.named(base + static_cast<int>(waiting)) + " waits at __syncthreads(), line " +
               std::to_string(line) + ", but " + checks.named(base + static_cast<int>(elsewhere)) +
               (other.state == State::ended
                    ? std::string(" never comes there")
                    : " at that of line " + std::to_string(other.barrier_line)) +
               ": each must be reached by all threads of the block";
      });
    }
    ++checks.interval;
    for (Fiber& fiber : fibers_) fiber.state = State::runs;
    return true;
  }

  std::vector<Fiber> fibers_;
  char* stacks_ = nullptr;
  void* callers_stack_ = nullptr;
  size_t callers_stack_bytes_ = 0;
  ucontext_t scheduler_;
  void* kernel_ = nullptr;
  void (*call_kernel_)(void*) = nullptr;
  bool stopped_ = false, in_kernel_ = false;
};
inline Block block;

inline void Block::start_fiber() {
  block.in_kernel_ = true;
  block.call_kernel_(block.kernel_);
  block.in_kernel_ = false;
  block.leave(State::ended);
}

inline void wait_for_block(int line) {
  block.wait_for_block(line);
}
inline uint64_t exchange(unsigned mask, uint64_t bits, int from) {
  return block.exchange(mask, bits, from);
}
inline unsigned lane() {
  return block.lane();
}
inline void note_atomic(const void* address, size_t bytes) {
  block.access(address, bytes, true, true, __builtin_return_address(0));
}

}  // namespace emulation

// What -fsanitize=thread calls before each access. NOLINTBEGIN
extern "C" {
#define WHISKER_ACCESS(name, writes, bytes)                                        \
  __attribute__((no_sanitize("thread"))) void __tsan_##name(void* p) {             \
    emulation::block.access(p, bytes, writes, false, __builtin_return_address(0)); \
  }
#define WHISKER_ACCESSES(bytes)                       \
  WHISKER_ACCESS(read##bytes, false, bytes)           \
  WHISKER_ACCESS(write##bytes, true, bytes)           \
  WHISKER_ACCESS(unaligned_read##bytes, false, bytes) \
  WHISKER_ACCESS(unaligned_write##bytes, true, bytes)
WHISKER_ACCESSES(1)
WHISKER_ACCESSES(2)
WHISKER_ACCESSES(4)
WHISKER_ACCESSES(8)
WHISKER_ACCESSES(16)
#undef WHISKER_ACCESSES
#undef WHISKER_ACCESS
__attribute__((no_sanitize("thread"))) void __tsan_read_range(void* p, unsigned long bytes) {
  emulation::block.access(p, bytes, false, false, __builtin_return_address(0));
}
__attribute__((no_sanitize("thread"))) void __tsan_write_range(void* p, unsigned long bytes) {
  emulation::block.access(p, bytes, true, false, __builtin_return_address(0));
}
__attribute__((no_sanitize("thread"))) void __tsan_vptr_update(void**, void*) {}
__attribute__((no_sanitize("thread"))) void __tsan_vptr_read(void**) {}
__attribute__((no_sanitize("thread"))) void __tsan_func_entry(void*) {}
__attribute__((no_sanitize("thread"))) void __tsan_func_exit() {}
__attribute__((no_sanitize("thread"))) void __tsan_init() {}

// What -fsanitize=bounds calls before an index that an array of known length does not have.
struct UbsanLocation {
  const char* file;
  unsigned line, column;
};
void __ubsan_handle_out_of_bounds(UbsanLocation* at, unsigned long index) {
  emulation::block.index_outside(index, at->line);
}
}
// NOLINTEND
