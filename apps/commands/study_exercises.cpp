// whisker study exercises, whisker study grade: the exercises of docs/course.
#include "apps/commands/study_target.h"
#include "apps/study/grading/child_process.h"
#include "apps/study/grading/exercises.h"
#include "apps/study/grading/grade.h"
#include "apps/terminal/program_files.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/terminal.h"
#include "core/io/atomic_file.h"
#include "core/io/file.h"
#include "core/io/json.h"
#include "core/io/shell_word.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/io/user_folder.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

#include <fmt/ranges.h>

namespace whisker {
namespace fs = std::filesystem;
namespace {

// Which exercises were answered: one name a line.
fs::path progress_file() {
  const fs::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  return folder.empty() ? folder : folder / "whisker" / "exercises_done";
}

std::vector<std::string> finished_exercises() {
  const fs::path file = progress_file();
  std::error_code error;
  std::vector<std::string> names;
  if (!fs::is_regular_file(file, error)) return names;
  std::istringstream lines(read_file(file, size_t{1} << 20, ErrorKind::usage));
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

// Adds a name. Returns what there is to say: where it is written, or why it is not.
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

struct GradeArguments {
  std::string exercise, file;
  std::string hint;  // no integer: with CLI11 2.4 such a flag counts as given, whether it is or not
  bool watch = false;
  StudyView view;
};

constexpr int hints = 3;

int list_exercises(const Invocation& invocation, const StudyView& view) {
  const std::vector<std::string> done = finished_exercises();
  JsonWriter json;
  json.begin_object().field("schema_version", 1).key("exercises").begin_array();
  TextTable table({"exercise", ">lesson", "", "what"});
  std::string next;
  size_t finished = 0;
  for (const Exercise& exercise : all_exercises()) {
    const bool is_done = std::ranges::find(done, exercise.name) != done.end();
    const bool is_next = !is_done && next.empty();
    finished += is_done;
    if (is_next) next = exercise.name;
    table.add({std::string(exercise.name),
               exercise.lesson > 0 ? std::to_string(exercise.lesson) : std::string("gpu"),
               is_done   ? "done"
               : is_next ? "next"
                         : "",
               std::string(exercise.title)});
    json.begin_object().field("name", exercise.name).field("title", exercise.title);
    json.field("lesson", exercise.lesson > 0 ? std::optional(exercise.lesson) : std::nullopt);
    json.field("done", is_done).field("next", is_next);
    json.field("task", (course_folder() / "exercises" / exercise.name / "exercise.md").string());
    json.end_object();
  }
  if (view.json) {
    print_result(json.end_array().end_object().str() + "\n");
    return 0;
  }
  std::string text = table.str("", table_width()) +
                     fmt::format("\n{} of {} done.", finished, all_exercises().size());
  if (!next.empty()) {
    const fs::path folder = from_here(course_folder() / "exercises" / next);
    text += fmt::format(" Next: {}; the task is {}.", next,
                        shell_word((folder / "exercise.md").string()));
  }
  print_result(text + "\n");
  if (invocation.verbosity >= 0) tell(progress_file_note() + "\n");
  return 0;
}

// The text below "## N" of hints.md.
std::string hint_of(const fs::path& file, int number) {
  const std::string text = read_file(file, size_t{1} << 20, ErrorKind::usage);
  const std::string heading = fmt::format("## {}\n", number);
  const size_t begin = text.find(heading);
  if (begin == std::string::npos) {
    fail(ErrorKind::usage, "study grade: {} has no hint {}.", file.string(), number);
  }
  const size_t from = text.find_first_not_of('\n', begin + heading.size());
  const std::string hint = text.substr(from, text.find("\n## ", from) - from);
  return hint.substr(0, hint.find_last_not_of('\n') + 1);
}

int show_hint(const Exercise& exercise, const fs::path& folder, const std::string& hint) {
  const int number = hint.size() == 1 ? hint[0] - '0' : 0;
  if (number < 1 || number > hints) {
    fail(ErrorKind::usage, "study grade: --hint: expected 1 to {}, got {}.", hints, excerpt(hint));
  }
  print_result(
      fmt::format("hint {} of {}\n\n{}\n", number, hints, hint_of(folder / "hints.md", number)));
  if (number < hints) {
    print_result(fmt::format("\n--hint={} says more.\n", number + 1));
  } else {
    print_result(fmt::format("\nA solution: {}\n",
                             from_here(folder / "../../solutions" /
                                       (std::string(exercise.name) +
                                        fs::path(exercise.answer_file).extension().string()))
                                 .lexically_normal()
                                 .string()));
  }
  return 0;
}

fs::path answer_of(const GradeArguments& arguments, const Exercise& exercise,
                   const fs::path& folder) {
  const fs::path extension = fs::path(exercise.answer_file).extension();
  const fs::path file = arguments.file.empty()
                            ? fs::path(std::string(exercise.name) + extension.string())
                            : fs::path(arguments.file);
  std::error_code error;
  if (fs::is_regular_file(file, error)) return file;
  fail(
      ErrorKind::usage,
      "study grade: expected your answer in {}, which is no file. Begin with a copy: cp {} {}. The "
      "task is {}.",
      excerpt(file.string()), shell_word(from_here(folder / exercise.answer_file).string()),
      shell_word(file.string()), from_here(folder / "exercise.md").string());
}

int grade_once(const Exercise& exercise, const fs::path& file, const Invocation& invocation,
               const StudyView& view) {
  const Grade graded = grade_file(exercise, file, course_folder());
  if (view.json) {
    JsonWriter json;
    json.begin_object().field("schema_version", 1).field("exercise", exercise.name);
    json.field("file", file.string()).field("right", graded.passed).list("causes", graded.causes);
    print_result(json.field("text", graded.text).end_object().str() + "\n");
  } else {
    print_result(graded.text);
    if (!graded.passed) {
      print_result(fmt::format("\nA hint: whisker study grade {} --hint\n", exercise.name));
    }
  }
  if (!graded.passed) return 1;
  const std::string note = remember_finished(std::string(exercise.name));
  if (invocation.verbosity >= 0 && !note.empty()) tell(note + "\n");
  return 0;
}

// Until Ctrl-C: again whenever the file changed.
int grade_watching(const Exercise& exercise, const fs::path& file, const Invocation& invocation,
                   const StudyView& view) {
  const std::atomic<int>& stop = catch_stop_signals();
  std::error_code error;
  int code = 0;
  for (fs::file_time_type seen; stop.load() == 0;) {
    const fs::file_time_type written = fs::last_write_time(file, error);
    if (error || written == seen) {  // an editor may be replacing it
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    seen = written;
    code = grade_once(exercise, file, invocation, view);
    if (view.json) continue;
    print_result(
        fmt::format("\nwaiting for {} to change; Ctrl-C ends\n\n", printable(file.string())));
  }
  return code;
}

}  // namespace

void add_exercise_commands(CLI::App& study, Invocation& invocation) {
  CLI::App* list = study.add_subcommand(
      "exercises", "List the exercises of the course, what is done and what is next");
  const auto arguments = std::make_shared<GradeArguments>();
  add_json_option(list, arguments->view);
  set_action(list, invocation,
             [&invocation, arguments] { return list_exercises(invocation, arguments->view); });

  CLI::App* graded =
      study.add_subcommand("grade", "Check an answer to an exercise; exit code 1 when it is wrong");
  graded->add_option("EXERCISE", arguments->exercise, "One of whisker study exercises")->required();
  graded->add_option("FILE", arguments->file, "The answer (EXERCISE.cpp)");
  graded->add_flag("--watch", arguments->watch,
                   "Check again whenever the file changes, until Ctrl-C");
  CLI::Option* const hint = graded->add_flag("--hint{1}", arguments->hint,
                                             "A hint instead; --hint=2 and --hint=3 say more");
  add_json_option(graded, arguments->view);
  hint->excludes("--json");
  set_action(graded, invocation, [&invocation, arguments, hint] {
    const Exercise& exercise = find_exercise(arguments->exercise);
    const fs::path folder = course_folder() / "exercises" / exercise.name;
    if (hint->count() > 0) {
      if (!arguments->file.empty()) {
        fail(ErrorKind::usage,
             "study grade: --hint goes with the exercise alone, got {}, too. --hint=N is the hint "
             "of "
             "that number.",
             excerpt(arguments->file));
      }
      return show_hint(exercise, folder, arguments->hint);
    }
    const fs::path file = answer_of(*arguments, exercise, folder);
    try {
      return arguments->watch ? grade_watching(exercise, file, invocation, arguments->view)
                              : grade_once(exercise, file, invocation, arguments->view);
    } catch (const Stopped& stopped) {
      return 128 + stopped.signal;
    }
  });
}

}  // namespace whisker
