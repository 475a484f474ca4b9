// The `whisker` program: chooses the subcommand and turns every failure into one line on stderr and
// the exit code of its kind.
#include "apps/command.h"
#include "apps/signals.h"
#include "apps/terminal.h"
#include "apps/usage_error.h"
#include "core/error.h"
#include "core/memory.h"
#include "train/version.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace whisker {

namespace {

// A closed stdin, stdout or stderr would lend its number to the next file that is opened, and
// results would be written into a checkpoint. What stands in for it fails every read and write.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) std::abort();
  }
}

// Note [Spinning]
// libgomp's threads spin for milliseconds at the end of every parallel loop before they sleep.
// Other threads need those cores, the loader's above all: while a compute thread is set aside for
// one of them, the other spins away its whole time slice, again in every operator. So they spin for
// microseconds only, which still covers the gaps between operators. libgomp reads its environment
// when it is loaded, hence the second start; what a user has set is kept.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  ::execv(program.c_str(), argv);  // comes back only when it failed: then they spin
}

int report(int exit_code, const char* message) {
  tell(fmt::format("{} {}\n", paint(stderr, "whisker: error:", Color::red), message));
  return exit_code;
}

int run(int argc, char** argv, Invocation& invocation) {
  CLI::App app("Whisker: train, fine-tune and use networks on pictures, text and series.",
               "whisker");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag_callback(
      "-q,--quiet", [&] { invocation.verbosity = -1; }, "Only errors");
  app.add_flag(
      "-v,--verbose", [&](int64_t n) { invocation.verbosity = static_cast<int>(n); },
      "More detail");
  app.set_version_flag("--version", fmt::format("whisker {}", version), "Print the version");
  app.add_option("--color", invocation.color, "Colours: auto, always or never (NO_COLOR is obeyed)")
      ->check(CLI::IsMember({"auto", "always", "never"}));

  add_train_command(app, invocation);
  add_evaluate_command(app, invocation);
  add_classify_command(app, invocation);
  add_bench_command(app, invocation);
  add_generate_command(app, invocation);
  add_summary_command(app, invocation);
  add_data_command(app, invocation);
  add_study_command(app, invocation);
  add_config_command(app, invocation);
  add_devices_command(app, invocation);
  add_version_command(app, invocation);
  add_completion_command(app, invocation);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    set_color(invocation.color);
    return report(static_cast<int>(ErrorKind::usage), usage_error(app, error).c_str());
  }
  set_color(invocation.color);
  return invocation.run();
}

}  // namespace
}  // namespace whisker

int main(int argc, char** argv) {
  // A reader that went away (whisker train | tee, then Ctrl-C) is a failed write, not our end.
  std::signal(SIGPIPE, SIG_IGN);
  using whisker::ErrorKind;
  whisker::limit_spinning(argv);
  whisker::occupy_standard_streams();
  whisker::Invocation invocation;
  try {
    whisker::confine_stop_signals();
    return whisker::run(argc, argv, invocation);
  } catch (const whisker::Error& error) {
    return whisker::report(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return whisker::report(static_cast<int>(ErrorKind::device),
                           fmt::format("out of memory. {}", whisker::memory_remedy).c_str());
  } catch (const std::filesystem::filesystem_error& error) {
    const std::errc code = static_cast<std::errc>(error.code().value());
    const bool failing = code == std::errc::no_space_on_device || code == std::errc::io_error;
    return whisker::report(static_cast<int>(failing ? ErrorKind::disk : ErrorKind::usage),
                           error.what());
  } catch (const std::exception& error) {
    return whisker::report(static_cast<int>(ErrorKind::internal), error.what());
  }
}
