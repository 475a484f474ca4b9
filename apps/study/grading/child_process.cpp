#include "apps/study/grading/child_process.h"

#include "apps/terminal/signals.h"
#include "core/error.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

constexpr int not_found_code = 127;
constexpr rlim_t most_output = 1 << 20;

void set_limit(decltype(RLIMIT_AS) resource, rlim_t value) {
  const rlimit limit{value, value};
  ::setrlimit(resource, &limit);
}

[[noreturn]] void become(char* const* argv, const char* output, const ChildLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // so that what it starts ends with it
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int file = ::open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (nothing < 0 || file < 0) ::_exit(1);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  set_limit(RLIMIT_CORE, 0);
  if (limits.memory > 0) {
    set_limit(RLIMIT_AS, static_cast<rlim_t>(limits.memory));
    set_limit(RLIMIT_FSIZE, most_output);  // SIGXFSZ is ignored here and there: writes fail
  }
  deliver_stop_signals();
  ::execvp(argv[0], argv);
  ::_exit(errno == ENOENT ? not_found_code : 1);
}

}  // namespace

ChildEnd run_child(std::vector<std::string> words, const std::filesystem::path& output,
                   const ChildLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const std::atomic<int>& stop = catch_stop_signals();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string file = output.string();
  const pid_t child = ::fork();
  if (child < 0) {
    fail(ErrorKind::device, "{} cannot be started: {}.", words[0], std::strerror(errno));
  }
  if (child == 0) become(argv.data(), file.c_str(), limits);
  const auto end = Clock::now() + std::chrono::seconds(limits.seconds);
  ChildEnd result;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (stop.load() == 0 && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    result.timed_out = true;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    break;
  }
  ::kill(-child, SIGKILL);  // what it started and left
  if (stop.load() != 0) throw Stopped{stop.load()};
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  result.not_found = result.code == not_found_code;
  return result;
}

}  // namespace whisker
