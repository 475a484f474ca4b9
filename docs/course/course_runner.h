// Calls an answer: `whisker study grade` compiles it with a main() that is run() below, and starts
// that as a process of its own. Reads problems from one file and appends to another, so that what
// came before a crash is known. Tests use call() alone.
#pragma once

#include "course.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

namespace course {

constexpr int max_rank = 8, max_arguments = 24;

/// One argument: its elements as double, which a result replaces.
struct Argument {
  char name[32] = {};
  int rank = 0;
  int extents[max_rank] = {};
  bool is_result = false;
  double* values = nullptr;

  int count() const { return View<const double>{values, extents, rank, name}.count(); }
};

/// The argument's elements as the answer's type, between two zones that nobody may write to.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(bytes_); }

  template <class E>
  E* fill(const Argument& argument) {
    size_ = static_cast<std::size_t>(argument.count()) * sizeof(E);
    bytes_ = static_cast<unsigned char*>(std::malloc(size_ + 2 * zone));
    if (!bytes_) throw std::bad_alloc();
    std::memset(bytes_, pattern, size_ + 2 * zone);
    E* const elements = reinterpret_cast<E*>(bytes_ + zone);
    for (int k = 0; k < argument.count(); ++k) elements[k] = static_cast<E>(argument.values[k]);
    return elements;
  }
  template <class E>
  void take(Argument& argument) const {
    const E* const elements = reinterpret_cast<const E*>(bytes_ + zone);
    for (int k = 0; k < argument.count(); ++k)
      argument.values[k] = static_cast<double>(elements[k]);
  }
  bool zones_are_whole() const {
    for (std::size_t i = 0; i < zone; ++i) {
      if (bytes_[i] != pattern || bytes_[zone + size_ + i] != pattern) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t zone = 4096;
  static constexpr unsigned char pattern = 0xA5;
  unsigned char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// How a parameter of type P is made of an argument; E is the type of its elements.
template <class P>
struct Passed {  // a number by value
  using E = P;
  static P from(P* elements, const Argument&) { return *elements; }
};
template <class T>
struct Passed<T&> {  // a number as a result
  using E = T;
  static T& from(T* elements, const Argument&) { return *elements; }
};
template <class T>
struct Passed<View<T>> {
  using E = std::remove_const_t<T>;
  static View<T> from(E* elements, const Argument& argument) {
    return {elements, argument.extents, argument.rank, argument.name};
  }
};

template <class... P, std::size_t... I>
void call(void (*answer)(P...), Argument* arguments, std::index_sequence<I...>) {
  Memory memory[sizeof...(P)];
  answer(Passed<P>::from(memory[I].template fill<typename Passed<P>::E>(arguments[I]),
                         arguments[I])...);
  for (std::size_t i = 0; i < sizeof...(P); ++i) {
    if (memory[i].zones_are_whole()) continue;
    Stop reason;
    std::snprintf(reason.text, sizeof reason.text, "elements before or behind %s were written to",
                  arguments[i].name);
    throw reason;
  }
  ((arguments[I].is_result ? memory[I].template take<typename Passed<P>::E>(arguments[I]) : void()),
   ...);
}

/// Runs the answer on as many arguments as it has; its results replace theirs. Throws Stop where it
/// leaves a tensor, and what it throws.
template <class... P>
void call(void (*answer)(P...), Argument* arguments) {
  call(answer, arguments, std::make_index_sequence<sizeof...(P)>());
}

// --- the process: problems are "bytes per element, arguments, then each of them" ----------------

inline bool read_exactly(std::FILE* file, void* to, std::size_t bytes) {
  return std::fread(to, 1, bytes, file) == bytes;
}

inline bool read_argument(std::FILE* file, Argument& argument) {
  std::int32_t is_result = 0, rank = 0, extents[max_rank];
  if (!read_exactly(file, argument.name, sizeof argument.name) ||
      !read_exactly(file, &is_result, sizeof is_result) ||
      !read_exactly(file, &rank, sizeof rank) || !read_exactly(file, extents, sizeof extents)) {
    return false;
  }
  argument.is_result = is_result != 0;
  argument.rank = rank;
  for (int axis = 0; axis < max_rank; ++axis) argument.extents[axis] = extents[axis];
  const std::size_t bytes = static_cast<std::size_t>(argument.count()) * sizeof(double);
  argument.values = static_cast<double*>(std::malloc(bytes));
  return argument.values && read_exactly(file, argument.values, bytes);
}

/// Writes "b" before a problem, and behind it "d" and the results, or "s" and the reason in 200
/// bytes. Null for a type that the exercise does not use.
template <class F64, class F32>
int run(const char* problems, const char* results, F64 f64, F32 f32) {
  std::FILE* const in = std::fopen(problems, "rb");
  std::FILE* const out = std::fopen(results, "ab");
  if (!in || !out) return 1;
  for (std::int32_t head[2]; read_exactly(in, head, sizeof head);) {
    Argument arguments[max_arguments];
    for (int i = 0; i < head[1]; ++i) {
      if (!read_argument(in, arguments[i])) return 1;
    }
    std::fputc('b', out);
    std::fflush(out);
    Stop stopped = {};
    try {
      if (head[0] == 8) {
        if constexpr (!std::is_null_pointer_v<F64>) call(f64, arguments);
      } else {
        if constexpr (!std::is_null_pointer_v<F32>) call(f32, arguments);
      }
    } catch (const Stop& reason) {
      stopped = reason;
    } catch (const std::bad_alloc&) {
      std::snprintf(stopped.text, sizeof stopped.text, "it asked for more than 1 GiB of memory");
    } catch (const std::exception& error) {
      std::snprintf(stopped.text, sizeof stopped.text, "it threw '%.150s'", error.what());
    } catch (...) {
      std::snprintf(stopped.text, sizeof stopped.text, "it threw an exception");
    }
    std::fflush(stdout);
    std::fputc(stopped.text[0] ? 's' : 'd', out);
    if (stopped.text[0]) std::fwrite(stopped.text, sizeof stopped.text, 1, out);
    for (int i = 0; i < head[1]; ++i) {
      const std::size_t count = static_cast<std::size_t>(arguments[i].count());
      if (arguments[i].is_result && !stopped.text[0]) {
        std::fwrite(arguments[i].values, sizeof(double), count, out);
      }
      std::free(arguments[i].values);
    }
    std::fflush(out);
  }
  return 0;
}

}  // namespace course
