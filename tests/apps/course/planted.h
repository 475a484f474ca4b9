// Wrong answers as learners write them, linked into the test. A group of them is one template:
// number 0 is right, each other number has one fault. The solution is a number 0, too.
#pragma once

#include "docs/course/course_runner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace whisker {

using RunOne = std::function<void(course::Argument*)>;

struct Planted {
  std::string exercise;
  int number = 0;
  std::string cause;  ///< a part of the sentence that names it; "": is not named
  RunOne in_double, in_float;
};

template <class F>
RunOne run_one(F* answer) {
  return [answer](course::Argument* arguments) { course::call(answer, arguments); };
}

/// `instance(number, type)` is the answer of that number for double or float, and the solution
/// below 0: ANSWERS(function); causes are those of 1, 2, ...
template <size_t faults, class Instance>
void plant(std::vector<Planted>& all, const std::string& exercise,
           const char* const (&causes)[faults], Instance instance) {
  const auto add = [&]<int n>(std::integral_constant<int, n> number) {
    all.push_back({exercise, std::max(n, 0), n <= 0 ? "" : causes[n - 1],
                   run_one(instance(number, double{})), run_one(instance(number, float{}))});
  };
  [&]<int... n>(std::integer_sequence<int, n...>) {
    (add(std::integral_constant<int, n - 1>()), ...);
  }
  (std::make_integer_sequence<int, int{faults} + 2>());
}
#define ANSWERS(function)                                 \
  []<int n, class T>(std::integral_constant<int, n>, T) { \
    if constexpr (n < 0)                                  \
      return &solutions::function<T>;                     \
    else                                                  \
      return &function<n, T>;                             \
  }

// Each in planted_*.cpp.
void plant_elementwise(std::vector<Planted>& all);
void plant_gpu(std::vector<Planted>& all);  // float alone
/// What the emulated block finds in small kernels, by their names; "": nothing.
std::map<std::string, std::string> said_by_emulation();
void plant_images(std::vector<Planted>& all);
void plant_matrix(std::vector<Planted>& all);
void plant_sequences(std::vector<Planted>& all);

}  // namespace whisker
