#include "apps/study/grading/grade.h"

#include "apps/study/grading/diagnosis.h"
#include "core/autograd/gradcheck.h"
#include "core/io/text_table.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr size_t width = 100;
constexpr size_t most_elements = 40;  // of a tensor that is written out

std::string nested(std::span<const double> values, std::span<const int64_t> extents) {
  if (extents.empty()) return fmt::format("{:.4g}", values[0]);
  std::string text = "[";
  const auto rows = static_cast<size_t>(extents[0]);
  const size_t size = values.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    if (row > 0) text += ", ";
    text += nested(values.subspan(row * size, size), extents.subspan(1));
  }
  return text + "]";
}

std::string written(std::span<const double> values, const Shape& shape) {
  if (values.size() > most_elements) return fmt::format("of shape {}", shape.str());
  return nested(values, shape.extents());
}

// Lines, the first of them behind `prefix`.
std::string wrapped(const std::string& text, std::string_view prefix) {
  std::string lines;
  for (const std::string& part : wrap_text(text, width - 6, CutWords::longest)) {
    lines += fmt::format("{}{}\n", lines.empty() ? prefix : "    ", part);
  }
  return lines;
}

std::string line(const std::string& name, const std::string& is, const std::string& what) {
  return wrapped(fmt::format("{} {} {}", name, is, what), "  ");
}

std::string inputs_text(const Exercise& exercise, const Problem& problem) {
  std::string text;
  for (const AnswerParameter& parameter : parameters_of(exercise)) {
    if (parameter.is_result()) continue;
    const Tensor& x = problem.values[parameter.name];
    text += line(parameter.name, x.count() > static_cast<int64_t>(most_elements) ? "is" : "=",
                 written(x.to_vector(), x.shape()));
  }
  return text;
}

std::string input_name(const Problem& problem) {
  return fmt::format("{}; seed {}, in {}", problem.setup->says, problem.seed,
                     problem.in_double ? "double" : "float");
}

// The element that is furthest from what it should be.
size_t worst_element(std::span<const double> got, std::span<const double> right) {
  size_t worst = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    if (!std::isfinite(got[k])) return k;
    if (std::fabs(got[k] - right[k]) > std::fabs(got[worst] - right[worst])) worst = k;
  }
  return worst;
}

std::string result_text(const Exercise& exercise, const Check& check, size_t r) {
  const auto& [name, tensor] = check.problem->right[r];
  const std::vector<double>&got = check.outcome->results[r], &right = check.right[r];
  std::string text;
  if (tensor.rank() > 0) {
    text = line(name, "should be", written(right, tensor.shape())) +
           line(name, "is", written(got, tensor.shape()));
  }
  const size_t k = worst_element(got, right);
  const auto element = static_cast<int64_t>(k);
  std::string slope;
  if (!exercise.expected) {
    slope = fmt::format("; the finite difference is {:.6g}",
                        finite_difference(exercise, check.problem->values,
                                          std::string_view(name).substr(1), element));
  }
  const std::string where = tensor.rank() == 0 ? name : name + position_in(tensor.shape(), element);
  return text +
         fmt::format("  {}: expected {:.6g}, got {:.6g}{}\n", where, right[k], got[k], slope);
}

// Compares the results in double with finite differences, which need no rule at all. Returns how
// many elements.
int64_t confirmed_elements(const Exercise& exercise, std::span<const Check> checks) {
  int64_t count = 0;
  for (const Check& check : checks) {
    for (size_t r = 0; check.problem->in_double && r < check.right.size(); ++r) {
      const std::string& name = check.problem->right[r].first;
      const std::vector<double>& got = check.outcome->results[r];
      for (size_t k = 0; k < got.size(); ++k, ++count) {
        const double slope =
            finite_difference(exercise, check.problem->values, std::string_view(name).substr(1),
                              static_cast<int64_t>(k));
        if (std::fabs(slope - got[k]) <= 1e-5 * std::max(1.0, std::fabs(slope))) continue;
        fail(ErrorKind::internal, "exercise {}: {} is {}, the finite difference {}.", exercise.name,
             name, got[k], slope);
      }
    }
  }
  return count;
}

// The wrong check with the fewest numbers.
const Check& smallest(std::span<const Check> checks) {
  const Check* found = nullptr;
  int64_t fewest = 0;
  for (const Check& check : checks) {
    if (check.is_right()) continue;
    int64_t count = 0;
    for (const auto& [name, shape] : check.problem->setup->tensors) count += shape.count();
    if (found && count >= fewest) continue;
    found = &check;
    fewest = count;
  }
  return *found;
}

std::string bullets(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += wrapped(sentence + ".", "  - ");
  return text;
}

std::string printed_text(const std::string& printed) {
  if (printed.empty()) return "";
  return fmt::format("\nIt printed:\n{}{}", printed, printed.ends_with('\n') ? "" : "\n");
}

// On messages of the compiler, with both parts, that do not say what to write instead.
std::string remark_on(const std::string& errors) {
  constexpr std::string_view remarks[][3] = {
      {"binary", "‘operator^’", "In C++ ^ is no power: the square of y is y * y."},
      {"no match for", "View<", "A View is a whole tensor: x[k] is its k-th element."},
      {"no match for", "‘dim3’",
       "blockIdx, blockDim, gridDim and threadIdx have parts: .x, .y and .z."},
      {"jump to", "case label", "A case with variables needs braces: case ...: { ... break; }"},
      {"function-definition is not allowed", "before ‘{’",
       "A } is missing in the answer: what stands behind it is taken for a part of the function."}};
  std::string text;
  for (const auto& [first, second, remark] : remarks) {
    if (errors.find(first) == std::string::npos || errors.find(second) == std::string::npos)
      continue;
    text += fmt::format("\n{}\n", remark);
  }
  return text;
}

Grade grade_built(const Exercise& exercise, const std::filesystem::path& file,
                  const std::filesystem::path& course, int seconds, BuiltFor built_for) {
  const AnswerProgram program(exercise, file, course, built_for);
  if (program.build_errors().empty()) {
    const std::vector<Problem> problems = problems_of(exercise);
    return grade(exercise, problems, program.run(problems, seconds));
  }
  std::error_code unknown;
  const bool called_otherwise =
      std::filesystem::exists(course / "exercises" / exercise.name / "call.h", unknown);
  return {.passed = false,
          .causes = {"it does not compile"},
          .text = fmt::format(
              "{}: it does not compile. {} says:\n\n{}{}{}", exercise.name,
              built_for == BuiltFor::gpu ? "nvcc" : "g++", program.build_errors(),
              remark_on(program.build_errors()),
              called_otherwise ? std::string()
                               : fmt::format("\nThe function is\n  template <class T>\n  void {}\n",
                                             exercise.signature))};
}

}  // namespace

Grade grade(const Exercise& exercise, std::span<const Problem> problems, const AnswerRun& run) {
  const std::vector<Check> checks = checks_of(problems, run);
  const auto wrong =
      std::ranges::count_if(checks, [](const Check& one) { return !one.is_right(); });
  Grade result;
  if (wrong == 0 && checks.size() == problems.size()) {
    result.passed = true;
    const std::string confirmed =
        exercise.expected || !exercise.in_double
            ? std::string()
            : fmt::format(
                  " The engine's backward gives the same, and so do finite differences "
                  "({} elements).",
                  confirmed_elements(exercise, checks));
    result.text = fmt::format("{}: right, in {} checks: {} inputs{}.{}\n{}", exercise.name,
                              checks.size(), exercise.setups.size() * seeds_of_a_setup,
                              exercise.in_double ? ", in double and in float" : "", confirmed,
                              printed_text(run.printed));
    return result;
  }
  result.causes = diagnose(exercise, checks);
  const auto stopped =
      std::ranges::find_if(checks, [](const Check& one) { return !one.outcome->stopped.empty(); });
  if (stopped != checks.end()) {
    result.causes.push_back(fmt::format("It was stopped with {}: {}", input_name(*stopped->problem),
                                        stopped->outcome->stopped));
  }
  const Check& shown = smallest(checks);
  result.text = fmt::format(
      "{}: wrong in {} of {} checks.\n\n{}", exercise.name, wrong, checks.size(),
      result.causes.empty() ? "Nothing that learners often do wrong gives these numbers.\n"
                            : "What it looks like:\n" + bullets(result.causes));
  result.text += fmt::format("\nThe smallest input that fails ({}):\n{}",
                             input_name(*shown.problem), inputs_text(exercise, *shown.problem));
  for (size_t r = 0; r < shown.agrees.size(); ++r) {
    if (!shown.agrees[r]) result.text += result_text(exercise, shown, r);
  }
  result.text += printed_text(run.printed);
  return result;
}

Grade grade_file(const Exercise& exercise, const std::filesystem::path& file,
                 const std::filesystem::path& course, int seconds) {
  if (!exercise.answer_file.ends_with(".cu")) {
    return grade_built(exercise, file, course, seconds, BuiltFor::cpu);
  }
  const std::string why_no_gpu = why_no_gpu_answer();
  Grade emulated;
  if (!exercise.needs_gpu) {
    emulated = grade_built(exercise, file, course, seconds, BuiltFor::cpu);
    if (!emulated.passed) return emulated;
    if (!why_no_gpu.empty()) {
      emulated.text += fmt::format("It ran on an emulated block, and on no GPU: {}\n", why_no_gpu);
      return emulated;
    }
    emulated.text += "That was on an emulated block. On the GPU:\n";
  } else if (!why_no_gpu.empty()) {
    fail(ErrorKind::device, "study grade: {} needs nvcc and a GPU, which no CPU can emulate: {}",
         exercise.name, why_no_gpu);
  }
  Grade on_gpu = grade_built(exercise, file, course, seconds, BuiltFor::gpu);
  on_gpu.text = emulated.text + on_gpu.text;
  return on_gpu;
}

}  // namespace whisker
