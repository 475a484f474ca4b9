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
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

// After a rank failed, the others have so long to end by themselves, as their watch makes them
// (core/communicator/rank_watch.h), before they are killed.
constexpr double patience_s = 5;
constexpr auto pause = std::chrono::milliseconds(20);

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
std::vector<std::string> environment_of(int rank, int count, int port, const std::string& secret) {
  std::vector<std::string> variables = {
      fmt::format("RANK={}", rank),        fmt::format("LOCAL_RANK={}", rank),
      fmt::format("WORLD_SIZE={}", count), "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", port), fmt::format("WHISKER_SECRET={}", secret)};
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
// with us, however we end.
pid_t start(std::vector<std::string> arguments, std::vector<std::string> variables) {
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorKind::device, "a rank cannot be started: {}.", std::strerror(errno));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before it was asked to tell
  ::setpgid(0, 0);
  deliver_stop_signals();
  ::execve(program.c_str(), argv.data(), envp.data());
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

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int ranks_to_start(const std::string& gpus, const std::string& device) {
  if (rank_environment().world > 1) return 0;
  const int listed = static_cast<int>(device_list(device).size());
  if (gpus.empty()) return listed > 1 ? listed : 0;
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
  return count > 1 ? count : 0;
}

int start_ranks(int count) {
  std::atomic<int>& stop = catch_stop_signals();
  int port = 0;
  {
    const FileDescriptor free = listen_at("127.0.0.1", 0);
    port = port_of(free);
  }
  std::random_device random;
  const std::string secret =
      fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  std::vector<Rank> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back({.process = start(own_arguments(), environment_of(rank, count, port, secret))});
  }
  int first_failure = 0, passed_on = 0;
  std::optional<Deadline> killed_at;
  while (std::ranges::any_of(ranks, &Rank::running)) {
    std::this_thread::sleep_for(pause);
    if (const int signal = stop.load(); signal != passed_on) {
      send_all(ranks, signal);
      passed_on = signal;
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      Rank& rank = ranks[i];
      int status = 0;
      if (!rank.running || ::waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.running = false;
      const int code = exit_code_of(status);
      if (code == 0) continue;
      if (first_failure == 0) first_failure = code;
      const bool saved = passed_on != 0 && !WIFSIGNALED(status);
      if (!saved && !killed_at) killed_at = in_seconds(patience_s);
    }
    if (killed_at && std::chrono::steady_clock::now() > *killed_at) {
      send_all(ranks, SIGKILL);
    }
  }
  return first_failure;
}

}  // namespace whisker
