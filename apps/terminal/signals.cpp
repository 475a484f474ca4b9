// Note [Signals and borrowed stacks]
// The kernel runs a handler on the stack of the thread that it interrupts, and first writes the
// thread's registers (3 KB with AVX-512) below its stack pointer. oneDNN's AVX-512 sgemm kernels,
// which recurrent layers run through, point that register into a buffer from malloc while they
// compute: a handler there overwrites other memory of the heap, and the process aborts or goes on
// with wrong numbers. So every thread that computes, the main one first, has these signals blocked,
// and one thread that only waits takes them. No other signal has a handler anywhere in the program,
// for the same reason. A child process inherits the blocked signals: see deliver_stop_signals().
#include "apps/terminal/signals.h"

#include "core/io/temporaries.h"

#include <csignal>
#include <initializer_list>
#include <thread>

#include <unistd.h>

namespace whisker {
namespace {

constexpr std::initializer_list<int> stop_signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

sigset_t stop_signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : stop_signals) sigaddset(&set, signal);
  return set;
}

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  int none = 0;
  if (!stop_signal.compare_exchange_strong(none, signal) && signal == SIGINT) _exit(130);
}

// Once: a second signal waits until this handler returns, and then ends the process.
void remove_and_end(int signal) {
  remove_temporaries();
  for (const int any : stop_signals) std::signal(any, SIG_DFL);
  std::raise(signal);  // blocked until this handler returns
}

void handle_stop_signals(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  action.sa_mask = stop_signal_set();
  for (const int signal : stop_signals) {
    struct sigaction inherited = {};
    sigaction(signal, nullptr, &inherited);
    if (inherited.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void confine_stop_signals() {
  const sigset_t confined = stop_signal_set();
  sigset_t inherited;
  pthread_sigmask(SIG_BLOCK, &confined, &inherited);
  // Detached: it ends with the process. Until a command catches the signals, they do here what they
  // do to any program.
  std::thread([inherited] {
    pthread_sigmask(SIG_SETMASK, &inherited, nullptr);
    for (;;) pause();
  }).detach();
}

void deliver_stop_signals() {
  const sigset_t own = stop_signal_set();
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
}

std::atomic<int>& catch_stop_signals() {
  handle_stop_signals(on_signal);
  return stop_signal;
}

void remove_outputs_on_stop() {
  handle_stop_signals(remove_and_end);
}

}  // namespace whisker
