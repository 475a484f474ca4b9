// The signal that asked a run to stop. Only one thread, which computes nothing, runs signal
// handlers: see Note [Signals and borrowed stacks].
#pragma once

#include <atomic>

namespace whisker {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 (a warning from SLURM or mpirun) reach one
/// dedicated thread. Call it before any other
/// thread starts: threads inherit the caller's signal mask. Signals blocked at program start stay
/// blocked. Throws std::system_error when no thread can be started.
void confine_stop_signals();

/// In a child process before it starts a program, which would find these signals blocked.
void deliver_stop_signals();

/// These signals request an orderly end: this becomes the number of the first one, 0
/// before. A second SIGINT ends the program at once. Signals ignored at program start (nohup, a
/// script's background job) stay ignored.
std::atomic<int>& catch_stop_signals();

/// From now on these signals, unless ignored at program start, end the program as they do to any,
/// after removing the files that it has not finished (core/io/temporaries.h).
void remove_outputs_on_stop();

}  // namespace whisker
