// All exercises, in the order of the course.
#pragma once

#include "apps/study/grading/exercise.h"

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

// Each in exercises_*.cpp.
std::vector<Exercise> elementwise_exercises();
std::vector<Exercise> gpu_exercises();
std::vector<Exercise> image_exercises();
std::vector<Exercise> matrix_exercises();
std::vector<Exercise> recurrent_exercises();
std::vector<Exercise> sequence_exercises();

/// Lessons 1 to 10, then the GPU warm-ups.
const std::vector<Exercise>& all_exercises();
std::vector<std::string> exercise_names();
/// Throws usage, naming the nearest, where there is none of that name.
const Exercise& find_exercise(std::string_view name);

}  // namespace whisker
