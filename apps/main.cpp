// The `whisker` program: chooses the subcommand and turns every failure into one line on stderr and
// the exit code of its kind.
#include "apps/terminal/command.h"
#include "apps/terminal/help.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/memory/memory.h"
#include "core/memory/thread_remedy.h"
#include "core/version.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
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

// The first lines of a long message, a table above all, are enough unless -v asks for the rest.
std::string first_lines(std::string_view message, int verbosity) {
  constexpr int most = 21;  // what is wrong, and twenty rows
  size_t end = 0;
  for (int lines = 0; lines < most && end != std::string_view::npos; ++lines) {
    end = message.find('\n', end + 1);
  }
  if (verbosity > 0 || end == std::string_view::npos) return std::string(message);
  const auto rest = std::ranges::count(message.substr(end), '\n');
  return fmt::format("{}\n  and {} more line{}, which -v shows", message.substr(0, end), rest,
                     rest == 1 ? "" : "s");
}

int report(ErrorKind kind, std::string_view message, int verbosity = 0) {
  tell_error(first_lines(message, verbosity));
  return static_cast<int>(kind);
}

// Ends as programs do that leave SIGPIPE alone: without a word, 141 in a shell.
int end_by_broken_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  return 128 + SIGPIPE;  // it is blocked
}

ErrorKind kind_of(const std::filesystem::filesystem_error& error) {
  for (const std::errc failing :
       {std::errc::no_space_on_device, std::errc::io_error, std::errc::file_too_large}) {
    if (error.code() == failing) return ErrorKind::disk;
  }
  return ErrorKind::usage;
}

int run(int argc, char** argv, Invocation& invocation) {
  CLI::App app("Whisker: train, fine-tune and use networks on images, text and series.", "whisker");
  app.formatter(help_formatter());
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag_callback(
      "-q,--quiet", [&] { invocation.verbosity = -1; }, "Only errors");
  app.add_flag(
         "-v,--verbose", [&](int64_t n) { invocation.verbosity = static_cast<int>(n); },
         "More detail")
      ->disable_flag_override();
  app.set_version_flag("--version", fmt::format("whisker {}", version), "Print the version");
  app.add_option("--color", invocation.color,
                 "Colours: auto, always or never (NO_COLOR is respected)")
      ->check(CLI::IsMember({"auto", "always", "never"}));

  add_train_command(app, invocation);
  add_evaluate_command(app, invocation);
  add_classify_command(app, invocation);
  add_bench_command(app, invocation);
  add_export_command(app, invocation);
  add_generate_command(app, invocation);
  add_import_command(app, invocation);
  add_report_command(app, invocation);
  add_summary_command(app, invocation);
  add_data_command(app, invocation);
  add_study_command(app, invocation);
  add_config_command(app, invocation);
  add_devices_command(app, invocation);
  add_models_command(app, invocation);
  add_version_command(app, invocation);
  add_completion_command(app, invocation);
  add_examples(app);

  try {
    app.parse(words_to_parse(app, {argv, argv + argc}));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(error, text, text);
      print_result(text.str());
      return 0;
    }
    set_color(invocation.color);
    return report(ErrorKind::usage, usage_error(app, error, {argv, argv + argc}));
  }
  set_color(invocation.color);
  return invocation.run();
}

}  // namespace
}  // namespace whisker

int main(int argc, char** argv) {
  // A reader that went away (whisker train | tee, then Ctrl-C) and a file that grew too large are
  // failed writes, not our end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  using whisker::ErrorKind;
  whisker::limit_spinning(argv);
  whisker::occupy_standard_streams();
  whisker::Invocation invocation;
  try {
    whisker::confine_stop_signals();
    return whisker::run(argc, argv, invocation);
  } catch (const whisker::BrokenPipe&) {
    return whisker::end_by_broken_pipe();
  } catch (const whisker::Error& error) {
    return whisker::report(error.kind(), error.what(), invocation.verbosity);
  } catch (const std::bad_alloc&) {
    return whisker::report(ErrorKind::device,
                           fmt::format("out of memory. {}", whisker::memory_remedy));
  } catch (const std::filesystem::filesystem_error& error) {
    return whisker::report(whisker::kind_of(error), error.what());
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      return whisker::report(ErrorKind::internal, error.what());
    }
    return whisker::report(ErrorKind::device,
                           fmt::format("no thread could be started. {}", whisker::thread_remedy));
  } catch (const std::exception& error) {
    return whisker::report(ErrorKind::internal, error.what());
  }
}
