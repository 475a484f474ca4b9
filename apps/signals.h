// The program's one piece of signal state: which signal asked a run to stop. Only one thread, which
// computes nothing, ever runs a signal handler: see Note [Signals and borrowed stacks].
#pragma once

#include <atomic>

namespace whisker {

/// From here on SIGINT, SIGTERM and SIGHUP reach one thread of their own, whose stack is a stack.
/// Call it before any other thread begins: threads inherit what the caller blocks. Signals that the
/// program was started with blocked stay blocked. Throws std::system_error without a thread left.
void confine_stop_signals();

/// SIGINT, SIGTERM and SIGHUP ask for an orderly end: the number of the first one appears here. A
/// second SIGINT ends the program at once. 0: none came. What the program was started ignoring
/// (nohup, a script's background job) stays ignored.
std::atomic<int>& catch_stop_signals();

}  // namespace whisker
