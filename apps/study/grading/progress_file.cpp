#include "apps/study/grading/progress_file.h"

#include "core/io/atomic_file.h"
#include "core/io/file.h"
#include "core/io/user_folder.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fmt/ranges.h>

namespace whisker {
namespace fs = std::filesystem;
namespace {

fs::path progress_file() {
  const fs::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  return folder.empty() ? folder : folder / "whisker" / "exercises_done";
}

}  // namespace

std::vector<std::string> finished_exercises() {
  const fs::path file = progress_file();
  std::error_code error;
  std::vector<std::string> names;
  if (!fs::is_regular_file(file, error)) return names;
  std::istringstream lines(read_file(file, size_t{1} << 20, ErrorKind::usage));
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

std::string remember_finished(const std::string& name) {
  const fs::path file = progress_file();
  if (file.empty()) return "study grade: without HOME and XDG_STATE_HOME it is not noted as done";
  std::vector<std::string> names = finished_exercises();
  if (std::ranges::find(names, name) != names.end()) return "";
  names.push_back(name);
  try {
    fs::create_directories(file.parent_path());
    write_file_atomically(file, fmt::format("{}\n", fmt::join(names, "\n")));
  } catch (const std::exception& error) {
    return fmt::format("study grade: {} is not noted as done: {}", name, error.what());
  }
  return fmt::format("study grade: {} is noted as done in {}", name, file.string());
}

std::string progress_file_note() {
  const fs::path file = progress_file();
  return file.empty()
             ? "study exercises: without HOME and XDG_STATE_HOME nothing is noted as done"
             : fmt::format("study exercises: what is done is noted in {} ($XDG_STATE_HOME)",
                           file.string());
}

}  // namespace whisker
