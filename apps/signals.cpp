#include "apps/signals.h"

#include <csignal>
#include <initializer_list>

#include <unistd.h>

namespace whisker {
namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  int none = 0;
  if (!stop_signal.compare_exchange_strong(none, signal) && signal == SIGINT) _exit(130);
}

}  // namespace

std::atomic<int>& catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  return stop_signal;
}

}  // namespace whisker
