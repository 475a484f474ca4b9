#include "apps/ranks/launcher.h"

#include "apps/terminal/signals.h"
#include "apps/terminal/terminal.h"
#include "core/communicator/rank_environment.h"
#include "core/communicator/socket.h"
#include "core/error.h"
#include "core/io/file.h"
#include "core/io/text.h"
#include "core/nvidia/cuda_library.h"
#include "train/config/device_name.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

// After a rank failed, the others have so long to end by themselves, as their watch makes them
// (core/communicator/rank_watch.h), before they are killed.
constexpr double patience_s = 5;
// A rank that is stopped (SIGSTOP, a debugger) continues when all are asked to end. One that is
// stopped still after so long is killed; others may take their time to save.
constexpr double stopped_s = 5;
constexpr auto pause = std::chrono::milliseconds(20);
constexpr auto before_restart = std::chrono::seconds(1);
constexpr int stopped_and_saved = 75;  // exit code
// Set for the ranks that this launcher started: where rank 0 writes its run folder; "-" for the
// others.
constexpr const char* run_variable = "WHISKER_RUN_FD";

std::vector<std::string> own_arguments() {
  const std::string text =
      read_file("/proc/self/cmdline", 1 << 24, ErrorKind::usage, Source::stream);
  std::vector<std::string> arguments;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

// This environment with the variables of `rank`, as torchrun sets them.
std::vector<std::string> environment_of(int rank, int count, int port, const std::string& secret,
                                        int run_fd) {
  std::vector<std::string> variables = {
      fmt::format("RANK={}", rank),
      fmt::format("LOCAL_RANK={}", rank),
      fmt::format("WORLD_SIZE={}", count),
      fmt::format("LOCAL_WORLD_SIZE={}", count),
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", port),
      fmt::format("WHISKER_SECRET={}", secret),
      fmt::format("{}={}", run_variable, rank == 0 ? std::to_string(run_fd) : "-")};
  const size_t own = variables.size();
  for (char** one = environ; *one; ++one) {
    const std::string_view variable = *one;
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    const auto is_it = [&](const std::string& set) { return set.starts_with(name); };
    if (std::any_of(variables.begin(), variables.begin() + own, is_it)) continue;
    variables.emplace_back(variable);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// In a process group of its own: Ctrl-C on the terminal then reaches a rank once, through us. Ends
// with us, however we end. Inherits `run_fd`.
pid_t start(RankProgram program, std::vector<std::string> variables, int run_fd) {
  const std::vector<char*> argv = pointers(program.arguments), envp = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorKind::device, "a rank cannot be started: {}.", std::strerror(errno));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before it was asked to tell
  ::setpgid(0, 0);
  deliver_stop_signals();
  if (run_fd >= 0) ::fcntl(run_fd, F_SETFD, 0);
  ::execve(program.path.c_str(), argv.data(), envp.data());
  ::_exit(1);
}

struct Rank {
  pid_t process = 0;
  bool running = true;
};

void send_all(const std::vector<Rank>& ranks, int signal) {
  for (const Rank& rank : ranks) {
    if (rank.running) ::kill(rank.process, signal);
  }
}

// "T" or "t" after the program's name in parentheses.
bool is_stopped(pid_t process) {
  try {
    const std::string stat =
        read_file(fmt::format("/proc/{}/stat", process), 4096, ErrorKind::device, Source::stream);
    const size_t state = stat.rfind(')') + 2;
    return state < stat.size() && (stat[state] == 'T' || stat[state] == 't');
  } catch (const Error&) {  // it has just ended
    return false;
  }
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// What became of all ranks.
struct Outcome {
  int code = 0;     // of the first that was killed, else of the first that failed
  int signal = 0;   // to this process, that was passed on
  std::string run;  // what rank 0 reported; "": nothing
};

std::string read_all(const FileDescriptor& pipe) {
  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t got = ::read(pipe.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(block, static_cast<size_t>(got));
  }
}

Outcome run_once(int count, const RankProgram& program, const std::atomic<int>& stop) {
  int port = 0;
  {
    const FileDescriptor free = listen_at("127.0.0.1", 0);
    port = port_of(free);
  }
  std::random_device random;
  const std::string secret =
      fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    fail(ErrorKind::device, "a rank cannot be started: {}.", std::strerror(errno));
  }
  const FileDescriptor reported(ends[0]);
  FileDescriptor report(ends[1]);
  std::vector<Rank> ranks;
  for (int rank = 0; rank < count; ++rank) {
    const int run_fd = rank == 0 ? report.get() : -1;
    ranks.push_back(
        {.process = start(program, environment_of(rank, count, port, secret, run_fd), run_fd)});
  }
  report = FileDescriptor();
  Outcome outcome;
  std::optional<Deadline> killed_at, stopped_until;
  bool ended_by_us = false, one_killed = false;
  while (std::ranges::any_of(ranks, &Rank::running)) {
    std::this_thread::sleep_for(pause);
    if (const int signal = stop.load(); signal != outcome.signal) {
      send_all(ranks, signal);
      send_all(ranks, SIGCONT);
      outcome.signal = signal;
      stopped_until = in_seconds(stopped_s);
    }
    if (stopped_until && std::chrono::steady_clock::now() > *stopped_until) {
      for (const Rank& rank : ranks) {
        if (rank.running && is_stopped(rank.process)) ::kill(rank.process, SIGKILL);
      }
      stopped_until = in_seconds(1);
    }
    for (Rank& rank : ranks) {
      int status = 0;
      if (!rank.running || ::waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.running = false;
      const int code = exit_code_of(status);
      if (code == 0) continue;
      // The others exit soon after one that was killed, and may be seen first.
      const bool killed = WIFSIGNALED(status) && !ended_by_us;
      if (outcome.code == 0 || (killed && !one_killed)) outcome.code = code;
      one_killed = one_killed || killed;
      const bool saved = outcome.signal != 0 && !WIFSIGNALED(status);
      if (!saved && !killed_at) killed_at = in_seconds(patience_s);
    }
    if (killed_at && std::chrono::steady_clock::now() > *killed_at) {
      send_all(ranks, SIGKILL);
      ended_by_us = true;
    }
  }
  outcome.run = read_all(reported);
  return outcome;
}

// Whether the same command may do better another time. What was configured wrong, or lies on the
// disk, stays so. The same steps diverge again, unless a GPU computed wrongly.
bool may_pass(int code, bool diverged_before) {
  switch (code) {
    case 0:
    case static_cast<int>(ErrorKind::usage):
    case static_cast<int>(ErrorKind::data):
    case static_cast<int>(ErrorKind::checkpoint):
    case static_cast<int>(ErrorKind::disk):
    case stopped_and_saved:
    case 128 + SIGINT:
    case 128 + SIGPIPE:
      return false;
    case static_cast<int>(ErrorKind::diverged):
      return !diverged_before;
    default:
      return true;
  }
}

std::string text_of(int code) {
  if (code > 128) return fmt::format("signal {} ({})", code - 128, ::strsignal(code - 128));
  return fmt::format("exit code {}", code);
}

bool has_checkpoint(const std::string& run) {
  std::error_code error;
  const std::filesystem::path state = std::filesystem::path(run) / "last/state.json";
  return !run.empty() && std::filesystem::exists(state, error);
}

}  // namespace

RankProgram own_program() {
  return {.path = std::filesystem::read_symlink("/proc/self/exe").string(),
          .arguments = own_arguments()};
}

int ranks_to_start(const std::string& gpus, const std::string& device, int max_restarts) {
  if (std::getenv(run_variable)) return 0;
  if (rank_environment().world > 1) {
    if (max_restarts == 0) return 0;
    fail(ErrorKind::usage,
         "--max-restarts: only for ranks that whisker starts itself, with --gpus. Under another "
         "launcher, repeat the command with --resume RUN.");
  }
  const int least = max_restarts > 0 ? 1 : 2;  // ranks that are worth a process of their own
  const int listed = static_cast<int>(device_list(device).size());
  if (gpus.empty()) return listed >= least ? listed : 0;
  if (device == "cpu" || device == "reference") {
    fail(ErrorKind::usage, "--gpus {}: not with device: {}. Use mpirun -n N for ranks on CPUs.",
         gpus, device);
  }
  const int available = cuda_device_count();
  if (available == 0) fail(ErrorKind::device, "--gpus {}: {}", gpus, why_no_cuda());
  int count = available;
  if (gpus != "all") {
    const auto [stop, error] = std::from_chars(gpus.data(), gpus.data() + gpus.size(), count);
    if (error != std::errc() || stop != gpus.data() + gpus.size() || count < 1) {
      fail(ErrorKind::usage, "--gpus: expected all or a number from 1, got {}.", excerpt(gpus));
    }
  }
  if (count > available) {
    fail(ErrorKind::device, "--gpus {}: this machine has {} visible GPU{}.", gpus, available,
         available == 1 ? "" : "s");
  }
  return count >= least ? count : 0;
}

int start_ranks(int count, const Restarts& restarts, RankProgram program) {
  const std::atomic<int>& stop = catch_stop_signals();
  std::string run;
  bool diverged = false;
  for (int restart = 1;; ++restart) {
    const Outcome outcome = run_once(count, program, stop);
    if (!outcome.run.empty()) run = outcome.run;
    const bool pointless = outcome.signal != 0 || !may_pass(outcome.code, diverged);
    if (restarts.most == 0 || pointless) return outcome.code;
    if (restart > restarts.most) {
      tell(fmt::format("whisker: {} after restart {} of {}\n", text_of(outcome.code), restarts.most,
                       restarts.most));
      return outcome.code;
    }
    diverged = outcome.code == static_cast<int>(ErrorKind::diverged);
    const bool resumes = has_checkpoint(run);
    if (resumes) program.arguments = restarts.resume(run);
    tell(fmt::format("whisker: {}; restart {} of {} {}\n", text_of(outcome.code), restart,
                     restarts.most,
                     resumes ? fmt::format("from the last checkpoint in {}", printable(run))
                             : "from the beginning: there is no checkpoint"));
    std::this_thread::sleep_for(before_restart);
    if (stop.load() != 0) return outcome.code;
  }
}

void report_run(const std::filesystem::path& folder) {
  const char* const text = std::getenv(run_variable);
  if (!text || std::string_view(text) == "-") return;
  const FileDescriptor launcher(std::atoi(text));
  const std::string path = folder.string();
  // A launcher that is gone has killed this process, or is about to.
  [[maybe_unused]] const ssize_t written = ::write(launcher.get(), path.data(), path.size());
}

}  // namespace whisker
