// The program's one piece of signal state: which signal asked a run to stop.
#pragma once

#include <atomic>

namespace whisker {

/// SIGINT, SIGTERM and SIGHUP ask for an orderly end: the number of the first one appears here. A
/// second SIGINT ends the program at once. 0: none came.
std::atomic<int>& catch_stop_signals();

}  // namespace whisker
