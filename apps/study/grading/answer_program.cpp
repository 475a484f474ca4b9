#include "apps/study/grading/answer_program.h"

#include "apps/study/grading/child_process.h"
#include "apps/terminal/program_files.h"
#include "core/io/atomic_file.h"
#include "core/io/file.h"
#include "core/io/text.h"
#include "core/nvidia/cuda_library.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fmt/ranges.h>
#include <stdlib.h>  // NOLINT: mkdtemp

namespace whisker {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_message_lines = 12;
constexpr size_t most_printed = 2000;  // bytes of what an answer printed that are shown

// nvcc, in this order: $CUDACXX, PATH, where the toolkit installs itself; "": not there.
fs::path nvcc() {
  std::error_code error;
  if (const char* name = std::getenv("CUDACXX"); name && fs::exists(name, error)) return name;
  const std::string path =
      fmt::format("{}:/usr/local/cuda/bin", std::getenv("PATH") ? std::getenv("PATH") : "");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path file = fs::path(path.substr(begin, end - begin)) / "nvcc";
    if (fs::exists(file, error)) return file;
    begin = end + 1;
  }
  return {};
}

// The compiler and its options: what stands before the source and behind it.
std::pair<std::vector<std::string>, std::vector<std::string>> compiler_of(const Exercise& exercise,
                                                                          BuiltFor built_for) {
  if (built_for == BuiltFor::gpu) {
    return {{nvcc().string(), "-std=c++20", "-arch=native", "-x", "cu"}, {}};
  }
  std::vector<std::string> words{"g++",
                                 "-std=c++20",
                                 "-fdiagnostics-color=never",
                                 "-fmax-errors=3",
                                 "-w",
                                 "-fno-diagnostics-show-caret"};
  if (!exercise.answer_file.ends_with(".cu")) {
    words.emplace_back("-O1");
    return {words, {}};
  }
  // Before each access a kernel calls block_emulation.h, not the libraries of these options.
  words.insert(words.end(), {"-O0", "-g1", "-fsanitize=thread,bounds"});
  return {words, {"-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"}};
}

// C++ of a string literal.
std::string quoted(const fs::path& path) {
  std::string text = "\"";
  for (const char c : path.string()) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// The answer's instance for one type: a wrong signature is an error that names both.
std::string instance(const Exercise& exercise, const char* type) {
  std::vector<std::string> types;
  for (const AnswerParameter& parameter : parameters_of(exercise)) types.push_back(parameter.type);
  return fmt::format("  using T = {};\n  void (*const answer)({}) = &{}<T>;\n", type,
                     fmt::join(types, ", "), function_name(exercise));
}

std::string main_of(const Exercise& exercise, const fs::path& file, const fs::path& course) {
  std::string text = fmt::format("#include \"course_runner.h\"\n#include {}\n", quoted(file));
  std::error_code error;
  const fs::path call = course / "exercises" / exercise.name / "call.h";
  if (fs::exists(call, error)) text += fmt::format("#include {}\n", quoted(call));
  text += "using course::View;\n";
  for (const char* type : {"double", "float"}) {
    const bool used = exercise.in_double || type[0] == 'f';
    text += fmt::format(
        "auto in_{}() {{\n{}  return answer;\n}}\n", type,
        used ? instance(exercise, type) : "  constexpr std::nullptr_t answer = nullptr;\n");
  }
  return text +
         "int main(int, char** words) {\n"
         "  return course::run(words[1], words[2], in_double(), in_float());\n}\n";
}

// g++'s first messages, without the folders of the answer and of what is built, without where a
// template is instantiated, and each place once: the instance for float has the errors of double.
std::string shortened(const std::string& messages, const fs::path& file, const fs::path& built) {
  std::string text;
  size_t lines = 0;
  std::vector<std::string> places;
  bool is_repeated = false;
  for (size_t begin = 0; begin < messages.size() && lines < most_message_lines;) {
    const size_t end = std::min(messages.find('\n', begin), messages.size());
    std::string line = messages.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("In file included") || line.starts_with("                 from")) continue;
    if (line.find("In instantiation of") != std::string::npos ||
        line.find("required from") != std::string::npos ||
        (line.starts_with("/usr/") && line.find(": note:") != std::string::npos)) {
      continue;
    }
    if (const size_t error = line.find(": error:"); error != std::string::npos) {
      is_repeated = std::ranges::find(places, line.substr(0, error)) != places.end();
      places.push_back(line.substr(0, error));
    }
    if (is_repeated || line.starts_with("compilation terminated")) continue;
    for (const std::string& folder : {file.parent_path().string() + "/", built.string() + "/"}) {
      for (size_t at = line.find(folder); at != std::string::npos; at = line.find(folder)) {
        line.erase(at, folder.size());
      }
    }
    text += printable(line) + "\n";
    ++lines;
  }
  return text;
}

void put(std::string& bytes, const void* from, size_t count) {
  bytes.append(static_cast<const char*>(from), count);
}

// Writes an argument as course::read_argument() reads it.
void put_argument(std::string& bytes, const std::string& name, bool is_result, const Tensor& x) {
  char text[32] = {};
  std::strncpy(text, name.c_str(), sizeof text - 1);
  const int32_t numbers[] = {is_result ? 1 : 0, static_cast<int32_t>(x.rank())};
  int32_t extents[8] = {};
  for (int axis = 0; axis < x.rank(); ++axis) extents[axis] = static_cast<int32_t>(x.extent(axis));
  std::vector<double> values = x.to_vector();
  if (is_result) std::ranges::fill(values, 0.0);
  put(bytes, text, sizeof text);
  put(bytes, numbers, sizeof numbers);
  put(bytes, extents, sizeof extents);
  put(bytes, values.data(), values.size() * sizeof(double));
}

std::string bytes_of(const Exercise& exercise, std::span<const Problem> problems) {
  const std::vector<AnswerParameter> parameters = parameters_of(exercise);
  std::string bytes;
  for (const Problem& problem : problems) {
    const int32_t head[] = {problem.in_double ? 8 : 4, static_cast<int32_t>(parameters.size())};
    put(bytes, head, sizeof head);
    auto right = problem.right.begin();
    for (const AnswerParameter& parameter : parameters) {
      const bool is_result = parameter.is_result();
      put_argument(bytes, parameter.name, is_result,
                   is_result ? (right++)->second : problem.values[parameter.name]);
    }
  }
  return bytes;
}

std::string end_text(const ChildEnd& end, int seconds) {
  if (end.timed_out) {
    return fmt::format("it was still running after {} s: a loop does not end", seconds);
  }
  if (end.signal == SIGSEGV || end.signal == SIGBUS) {
    return "it crashed (segmentation fault): it read or wrote outside of any tensor, or a function "
           "calls itself without end";
  }
  if (end.signal == SIGFPE) return "it crashed: a whole number is divided by 0";
  if (end.signal == SIGABRT)
    return "it crashed (abort): memory was overwritten, or an error was not caught";
  if (end.signal != 0) return fmt::format("it was ended by signal {}", end.signal);
  return fmt::format("it ended the process with exit code {}", end.code);
}

// What the process wrote before its end.
std::vector<Outcome> outcomes_of(const std::string& bytes, std::span<const Problem> problems,
                                 const ChildEnd& end, int seconds) {
  constexpr size_t reason_bytes = sizeof(char[200]);
  std::vector<Outcome> outcomes;
  size_t at = 0;
  for (const Problem& problem : problems) {
    if (at >= bytes.size() || bytes[at] != 'b') break;
    ++at;
    Outcome outcome;
    const char state = at < bytes.size() ? bytes[at++] : 'c';
    if (state == 's' && at + reason_bytes <= bytes.size()) {
      outcome.stopped = printable(bytes.substr(at, bytes.find('\0', at) - at));
      at += reason_bytes;
    } else if (state == 'd') {
      for (const auto& [name, right] : problem.right) {
        std::vector<double> values(static_cast<size_t>(right.count()));
        const size_t size = values.size() * sizeof(double);
        if (at + size > bytes.size()) break;
        std::memcpy(values.data(), bytes.data() + at, size);
        at += size;
        outcome.results.push_back(std::move(values));
      }
    }
    const bool whole = outcome.results.size() == problem.right.size();
    if (!whole && outcome.stopped.empty()) outcome.stopped = end_text(end, seconds);
    const bool crashed = state == 'c';
    outcomes.push_back(std::move(outcome));
    if (crashed) break;
  }
  if (outcomes.empty()) outcomes.push_back({.results = {}, .stopped = end_text(end, seconds)});
  return outcomes;
}

}  // namespace

std::string why_no_gpu_answer() {
  std::string why = why_no_cuda();
  const size_t remedy = why.find(", or use device=cpu.");  // grading has no device
  if (remedy != std::string::npos) why.replace(remedy, std::string::npos, ".");
  if (!why.empty()) return why;
  return nvcc().empty() ? "nvcc is neither on PATH nor in /usr/local/cuda/bin." : "";
}

AnswerProgram::AnswerProgram(const Exercise& exercise, const fs::path& file, const fs::path& course,
                             BuiltFor built_for)
    : exercise_(exercise), built_for_(built_for) {
  std::string name = (fs::temp_directory_path() / "whisker_grade_XXXXXX").string();
  if (!::mkdtemp(name.data())) {
    fail(ErrorKind::disk, "study grade: cannot make the folder {}: {}", name, std::strerror(errno));
  }
  folder_.path = name;
  const fs::path source = fs::absolute(file);
  write_file_atomically(folder_.path / "main.cpp", main_of(exercise, source, course));
  auto [words, libraries] = compiler_of(exercise, built_for);
  // The compiler's own files go there as well: it may be ended before it removes them.
  words.insert(words.begin(), {"env", "TMPDIR=" + name});
  words.insert(words.end(), {"-I", course.string(), "-o", (folder_.path / "answer").string(),
                             (folder_.path / "main.cpp").string()});
  words.insert(words.end(), libraries.begin(), libraries.end());
  const ChildEnd end = run_child(std::move(words), folder_.path / "messages", {.seconds = 60});
  if (end.not_found) {
    fail(ErrorKind::device,
         "study grade: an answer is built with g++, which is not on PATH. 'sudo apt-get install "
         "g++' installs it.");
  }
  if (end.code == 0 && end.signal == 0) return;
  build_errors_ = shortened(read_file(folder_.path / "messages", size_t{1} << 24, ErrorKind::data),
                            source, folder_.path);
  if (end.timed_out) build_errors_ += "the compiler was still at it after 60 s\n";
}

AnswerProgram::Folder::~Folder() {
  std::error_code unknown;
  fs::remove_all(path, unknown);
}

AnswerRun AnswerProgram::run(std::span<const Problem> problems, int seconds) const {
  const fs::path in = folder_.path / "problems", out = folder_.path / "results",
                 printed = folder_.path / "printed";
  write_file_atomically(in, bytes_of(exercise_, problems));
  write_file_atomically(out, std::string_view());
  // CUDA reserves more addresses than any limit of memory would leave it.
  const int64_t memory = built_for_ == BuiltFor::gpu ? 0 : memory_limit;
  const ChildEnd end = run_child({(folder_.path / "answer").string(), in.string(), out.string()},
                                 printed, {.seconds = seconds, .memory = memory});
  constexpr size_t most = size_t{1} << 24;
  return {.outcomes = outcomes_of(read_file(out, most, ErrorKind::data), problems, end, seconds),
          .printed = printable(read_file(printed, most, ErrorKind::data).substr(0, most_printed),
                               KeptLines::all)};
}

fs::path course_folder() {
  const fs::path folder = beside_program({"docs/course", "share/whisker/course"});
  if (folder.empty()) {
    fail(ErrorKind::usage,
         "study grade: the course is not installed with this program: expected docs/course or "
         "share/whisker/course above its folder.");
  }
  return folder;
}

}  // namespace whisker
