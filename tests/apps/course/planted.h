// Wrong answers as learners write them, linked into the test. A group of them is one template:
// number 0 is right, each other number has one fault.
#pragma once

#include "apps/study/grading/exercises.h"
#include "apps/study/grading/grade.h"
#include "docs/course/course_runner.h"

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

/// `instance(number, type)` is the answer of that number for double or float: ANSWERS(function);
/// causes are those of 1, 2, ...
template <size_t faults, class Instance>
void plant(std::vector<Planted>& all, const std::string& exercise,
           const char* const (&causes)[faults], Instance instance) {
  [&]<int... number>(std::integer_sequence<int, number...>) {
    (all.push_back({exercise, number, number == 0 ? "" : causes[number - 1],
                    run_one(instance(std::integral_constant<int, number>(), double{})),
                    run_one(instance(std::integral_constant<int, number>(), float{}))}),
     ...);
  }
  (std::make_integer_sequence<int, int{faults} + 1>());
}
#define ANSWERS(function) \
  []<int n, class T>(std::integral_constant<int, n>, T) { return &function<n, T>; }

/// What grading makes of an answer in this process.
AnswerRun run_here(const Exercise& exercise, std::span<const Problem> problems,
                   const Planted& planted);

// Each in planted_*.cpp.
void plant_elementwise(std::vector<Planted>& all);
void plant_gpu(std::vector<Planted>& all);  // float alone
/// What the emulated block finds in small kernels, by their names; "": nothing.
std::map<std::string, std::string> said_by_emulation();
void plant_images(std::vector<Planted>& all);
void plant_matrix(std::vector<Planted>& all);
void plant_sequences(std::vector<Planted>& all);
void plant_solutions(std::vector<Planted>& all);

}  // namespace whisker
