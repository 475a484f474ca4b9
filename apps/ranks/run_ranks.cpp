#include "apps/ranks/run_ranks.h"

#include "apps/terminal/command.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/temporaries.h"

#include <csignal>
#include <exception>

#include <unistd.h>

namespace whisker {
namespace {

// In the watch's thread, while the main one may wait for the rank that is gone.
void end_process(const RankFailure& failure) {
  if (failure.tell) {
    tell_error(fmt::format("rank {} on {} {}. All ranks end.", failure.rank, failure.host,
                           failure.reason));
  }
  remove_temporaries();
  ::_exit(failure.code);
}

}  // namespace

RunRanks::RunRanks() {
  const RankEnvironment environment = rank_environment();
  group_ = join_ranks(environment);
  if (group_->world() == 1) return;
  watch_ = std::make_unique<RankWatch>(
      *group_, environment.address, end_process,
      RankWatchOptions{.silence_s = static_cast<double>(environment.silence_s)});
}

void RunRanks::leave() {
  group_->barrier();
  watch_->leave();
  group_->leave();
}

void RunRanks::fail_all() {
  catch_stop_signals();  // mpirun sends SIGTERM once another rank has ended, before the message
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  try {
    throw;
  } catch (const Error& error) {
    kind = error.kind();
    message = error.what();
  } catch (const BrokenPipe&) {  // nobody is told
    watch_->fail(128 + SIGPIPE, "", [] {});
    throw;
  } catch (const std::exception& error) {
    message = error.what();
  }
  const int code = static_cast<int>(kind);
  watch_->fail(code, message, [&] { tell_error(fmt::format("{}: {}", watch_->name(), message)); });
  ::_exit(code);
}

}  // namespace whisker
