#include "apps/study/grading/exercises.h"

#include "core/io/text.h"

#include <algorithm>
#include <iterator>

namespace whisker {

const std::vector<Exercise>& all_exercises() {
  static const std::vector<Exercise> exercises = [] {
    std::vector<Exercise> all;
    for (auto* const part : {elementwise_exercises, matrix_exercises, image_exercises,
                             sequence_exercises, recurrent_exercises, gpu_exercises}) {
      std::ranges::move(part(), std::back_inserter(all));
    }
    std::ranges::stable_sort(all, [](const Exercise& a, const Exercise& b) {
      return (a.lesson > 0 ? a.lesson : 11) < (b.lesson > 0 ? b.lesson : 11);
    });
    return all;
  }();
  return exercises;
}

std::vector<std::string> exercise_names() {
  std::vector<std::string> names;
  for (const Exercise& exercise : all_exercises()) names.emplace_back(exercise.name);
  return names;
}

const Exercise& find_exercise(std::string_view name) {
  const auto& all = all_exercises();
  const auto found = std::ranges::find(all, name, &Exercise::name);
  if (found != all.end()) return *found;
  const std::string nearest = nearest_name(name, exercise_names());
  fail(ErrorKind::usage,
       "study grade: expected the name of an exercise, got {}.{} 'whisker study exercises' lists "
       "them.",
       excerpt(name),
       nearest.empty() ? std::string() : fmt::format(" Did you mean '{}'?", nearest));
}

}  // namespace whisker
