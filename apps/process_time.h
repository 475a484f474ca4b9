// How long this process has been there: what a person waits before the first step.
#pragma once

namespace whisker {

/// Seconds since the process was started, its loading included, to a hundredth; below 0 where /proc
/// does not tell.
double seconds_since_process_start();

}  // namespace whisker
