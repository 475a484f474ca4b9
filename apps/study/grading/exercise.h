// An exercise of the course, and the right answer to it.
//
// Note [Adding an exercise]
// 1. A folder docs/course/exercises/NAME/ holds exercise.md (the task on a page), answer.cpp (what
//    the learner copies and fills in) and hints.md (three headings "## 1", "## 2", "## 3", each
//    deeper); docs/course/solutions/NAME.cpp a right answer. A row of an exercises_*.cpp here,
//    which all_exercises() of exercises.h joins, says how it is graded.
// 2. The answer is `template <class T> void FUNCTION(...)` with the row's `signature`. Parameters:
//      View<const T> x    a tensor          View<const int> i   labels, indices
//      T eps              a number          int stride          a whole number
//      View<T> dx, T& dx  a result, filled with 0 before
//    T is double, then float.
// 3. Values of a problem: the tensors and numbers of its Setup, drawn from a normal distribution or
//    as given; what `prepare` adds or alters (labels; results of the forward pass that the answer
//    is given); and `dy`, where the signature names it, drawn in the shape of forward(). Values
//    that the signature does not name are for forward() and `expected` alone.
// 4. What is right: a result dX is the gradient of sum(dy * forward) with respect to X, by the
//    engine's backward, and the grader confirms what it shows by finite differences. An exercise
//    that is no gradient (an optimizer's step, a GPU kernel) has `expected` instead.
// 5. `faults` are wrong answers that learners give, computed: the grader names one when the answer
//    equals it in every check. Zeros, a wrong sign, a constant factor, a factor that is an extent
//    or an input, dy ignored, transposition, another result's values, elements left out, right in
//    some of the setups or in double alone need no row (diagnosis.cpp).
// 6. An answer that is called in another way (a kernel on an emulated block) has a file call.h
//    beside answer.cpp. It is included behind the answer and defines `template <class T> void
//    FUNCTION` with the signature, which calls the answer. It may throw course::Stop{"reason"}:
//    "the threads in reverse order gave another result" is shown as it stands. `answer_file` may be
//    answer.cu; g++ compiles it as C++.
// 7. tests/apps/course/planted_* hold five wrong answers at least for each exercise, those of
//    planted_cuda.cu for a GPU. docs/notes/2026-11-28-course-tests.md says why in one program.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

/// The values of one problem by name: f64 and i64 tensors on the reference device.
class Values {
 public:
  /// Throws internal for a name that is not there.
  const Tensor& operator[](std::string_view name) const;
  double number(std::string_view name) const { return (*this)[name].item(); }
  int64_t whole(std::string_view name) const { return static_cast<int64_t>(number(name)); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  void set(std::string name, Tensor value) { values_.insert_or_assign(std::move(name), value); }

 private:
  std::map<std::string, Tensor, std::less<>> values_;
};

/// The shapes of one problem, the smallest first in an exercise.
struct Setup {
  std::string_view says;  ///< what it is, in tags: "stride 2, padding 1"
  std::vector<std::pair<std::string_view, Shape>> tensors;
  std::vector<std::pair<std::string_view, double>> numbers = {};
};

struct Fault {
  std::string_view result;  ///< whose values these are: "dw"
  std::string_view says;    ///< a sentence to the learner: what is wrong, and why
  std::function<Tensor(const Values&)> compute;  ///< may throw where it is not defined
};

struct Exercise {
  std::string_view name;
  int lesson = 0;  ///< 1 to 10, or 0: of the GPU warm-ups
  std::string_view title;
  std::string_view signature;  ///< "mul_backward(View<const T> dy, ..., View<T> da)"
  std::vector<Setup> setups = {};
  std::function<void(Values&, uint64_t seed)> prepare = {};
  std::function<Tensor(const Values&)> forward = {};
  /// Each result of an exercise that is no gradient.
  std::function<Tensor(const Values&, std::string_view result)> expected = {};
  std::vector<Fault> faults = {};
  bool in_double = true;  ///< and in float
  std::string_view answer_file = "answer.cpp";
  bool needs_gpu = false;  ///< no CPU can emulate it
};

enum class AnswerParameterKind : uint8_t { tensor, labels, number, whole, result, scalar_result };
struct AnswerParameter {
  AnswerParameterKind kind = AnswerParameterKind::tensor;
  std::string type, name;  ///< "View<const T>", "dy"
  bool is_result() const { return kind >= AnswerParameterKind::result; }
};

/// "mul_backward".
std::string_view function_name(const Exercise& exercise);
/// The signature's parameters, in its order. Throws internal for a type that Note [Adding an
/// exercise] lacks.
std::vector<AnswerParameter> parameters_of(const Exercise& exercise);

/// One input of the answer, with what is right.
struct Problem {
  const Setup* setup = nullptr;
  uint64_t seed = 0;
  bool in_double = true;
  Values values;                                      ///< with `dy`
  std::vector<std::pair<std::string, Tensor>> right;  ///< each result, in the signature's order
};

constexpr uint64_t seeds_of_a_setup = 2;
/// Each setup with each seed, in double and then in float. `exercise` outlives them.
std::vector<Problem> problems_of(const Exercise& exercise);

/// d sum(dy * forward) / dx of the engine, in f64; zeros where forward does not depend on x.
Tensor engine_gradient(const Exercise& exercise, const Values& values, std::string_view x);
/// The gradient of one element by (f(x + h) - f(x - h)) / 2h.
double finite_difference(const Exercise& exercise, const Values& values, std::string_view x,
                         int64_t element);

}  // namespace whisker
