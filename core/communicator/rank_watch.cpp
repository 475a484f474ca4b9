// Messages: "beat COUNT WAITING ON_DEVICE" (work_progress.h) once a second; "fail RANK CODE
// REASON", which rank 0 passes on.
#include "core/communicator/rank_watch.h"

#include "core/communicator/greetings.h"
#include "core/error.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <random>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace whisker {
namespace {

constexpr double longest_beat_s = 1;
constexpr double connect_s = 60;
constexpr double farewell_s = 2;
constexpr auto abort_time = std::chrono::seconds(2);
constexpr size_t longest_report = 1 << 16;
// So long a rank that fails waits for another's message, which may be the reason. Rank 0 waits
// less: what all ranks refuse alike is told once.
constexpr auto others_first = std::chrono::milliseconds(300);

constexpr int broken_link = static_cast<int>(ErrorKind::device);  // exit code

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace

RankWatch::RankWatch(RankGroup& group, std::string address,
                     std::function<void(const RankFailure&)> on_failure, RankWatchOptions options)
    : group_(group),
      rank_(group.rank()),
      options_(std::move(options)),
      silence_s_(options_.silence_s),
      on_failure_(std::move(on_failure)) {
  if (group.world() == 1) return;
  hosts_ = group.all_gather(host_name());
  const bool one_machine = std::ranges::count(hosts_, hosts_[0]) == group.world();
  if (one_machine) address = "127.0.0.1";
  if (!one_machine && address == "127.0.0.1") address = hosts_[0];
  connect(address, !one_machine);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

// A token that the group carries keeps strangers out.
void RankWatch::connect(const std::string& address, bool from_others) {
  FileDescriptor listener;
  std::string place;
  if (group_.leads()) {
    listener = listen_at(listening_address(address, from_others), 0);
    place = fmt::format("{} {}", port_of(listener), random_token());
  }
  place = group_.from_leader(place);
  const size_t space = place.find(' ');
  const std::string token = place.substr(space + 1);
  const Deadline deadline = in_seconds(connect_s);
  if (!group_.leads()) {
    const int port = std::stoi(place.substr(0, space));
    auto socket = connect_until(address, port, deadline);
    if (!socket || !send_message(*socket, fmt::format("{} {}", token, rank_))) {
      whisker::fail(ErrorKind::device,
                    "{}: rank 0 on {} cannot be reached at {}:{} within {:.0f} s. Set MASTER_ADDR "
                    "to a name of its machine that the others can reach.",
                    name(), hosts_[0], address, port, connect_s);
    }
    peers_.push_back({.rank = 0, .socket = std::move(*socket), .silent_until = deadline});
  }
  Greetings greetings(listener, longest_report);
  while (group_.leads() && std::ssize(peers_) + 1 < group_.world()) {
    auto guest = greetings.next(deadline);
    if (!guest) {
      whisker::fail(ErrorKind::device, "rank 0 on {}: only {} of {} ranks connected at {}.",
                    hosts_[0], peers_.size() + 1, group_.world(), address);
    }
    if (!guest->greeting.starts_with(token + " ")) continue;
    peers_.push_back({.rank = std::stoi(guest->greeting.substr(token.size() + 1)),
                      .socket = std::move(guest->socket),
                      .silent_until = deadline});
  }
}

void RankWatch::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

// No connection is closed while another rank still watches.
void RankWatch::leave() {
  stop();
  group_.barrier();
}

void RankWatch::fail(int code, const std::string& reason, const std::function<void()>& tell_user) {
  if (!thread_.joinable()) return tell_user();
  std::this_thread::sleep_for(rank_ == 0 ? others_first : 2 * others_first);
  stop();
  tell_user();  // before the others end: mpirun kills the rest once one has
  tell_all(fmt::format("fail {} {} {}", rank_, code, reason.substr(0, longest_report / 2)));
  // A connection that is closed while the other side still sends would lose the message.
  const Deadline deadline = in_seconds(farewell_s);
  for (const Peer& peer : peers_) {
    ::shutdown(peer.socket.get(), SHUT_WR);
    while (receive_message(peer.socket, longest_report, deadline)) {
    }
  }
}

std::string RankWatch::name_of(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<size_t>(rank)]);
}

void RankWatch::tell_all(const std::string& message) {
  const std::lock_guard lock(mutex_);
  for (const Peer& peer : peers_) {
    send_message(peer.socket, message);
  }
}

void RankWatch::run(const std::stop_token& stop) {
  const auto begin = [&] {
    for (Peer& peer : peers_) peer.silent_until = in_seconds(silence_s_);
    if (courses_) courses_->restart(in_seconds(0));
  };
  if (rank_ == 0) courses_.emplace(hosts_.size(), silence_s_);
  begin();
  Deadline next_beat = in_seconds(0);
  Deadline last_turn = in_seconds(0);
  while (!stop.stop_requested()) {
    // A process that was stopped itself heard nobody meanwhile.
    if (in_seconds(-silence_s_ / 2) > last_turn) begin();
    last_turn = in_seconds(0);
    if (std::chrono::steady_clock::now() >= next_beat) {
      beat();
      next_beat = in_seconds(std::min(longest_beat_s, silence_s_ / 4));
      check_collectives();
      check_progress();
    }
    std::vector<pollfd> sockets;
    for (const Peer& peer : peers_) {
      sockets.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
    }
    constexpr int wait_ms = 100;
    ::poll(sockets.data(), sockets.size(), wait_ms);
    for (size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = peers_[i];
      if (sockets[i].revents != 0) read_from(peer);
      if (std::chrono::steady_clock::now() > peer.silent_until) {
        report({.rank = peer.rank,
                .tell = first_to_tell(peer.rank),
                .reason = fmt::format("has not answered for {:.0f} s: it hangs", silence_s_)});
      }
    }
  }
}

void RankWatch::beat() {
  const WorkProgress own = options_.progress();
  const bool on_device = group_.has_collectives();
  tell_all(fmt::format("beat {} {} {}", own.count, static_cast<int>(own.waiting),
                       static_cast<int>(on_device)));
  if (courses_) courses_->follow(0, own, on_device, in_seconds(0));
}

void RankWatch::check_progress() {
  if (!courses_) return;
  if (const auto hang = courses_->hang(in_seconds(0))) {
    report({.rank = hang->rank, .tell = true, .reason = hang->reason});
  }
}

void RankWatch::read_from(Peer& peer) {
  const auto message = receive_message(peer.socket, longest_report, in_seconds(silence_s_ / 4));
  if (!message) {
    return report({.rank = peer.rank,
                   .tell = first_to_tell(peer.rank),
                   .reason = "ended without a message: killed, or crashed"});
  }
  peer.silent_until = in_seconds(silence_s_);
  unsigned long long count = 0;
  int waiting = 0, on_device = 0;
  if (std::sscanf(message->c_str(), "beat %llu %d %d", &count, &waiting, &on_device) == 3) {
    const WorkProgress progress{.count = count, .waiting = static_cast<Waiting>(waiting)};
    if (courses_) courses_->follow(peer.rank, progress, on_device != 0, in_seconds(0));
    return;
  }
  int rank = 0, code = 1, read = 0;
  if (std::sscanf(message->c_str(), "fail %d %d %n", &rank, &code, &read) != 2) return;
  if (rank < 0 || rank >= std::ssize(hosts_)) return;
  report({.rank = rank, .code = code, .reason = message->substr(static_cast<size_t>(read))});
}

void RankWatch::check_collectives() {
  const std::string error = group_.collectives_error();
  if (error.empty()) return;
  if (rank_ != 0) tell_all(fmt::format("fail {} {} {}", rank_, broken_link, error));
  report({.rank = rank_, .code = broken_link, .tell = true, .reason = error});
}

// What runs on a GPU would otherwise wait for the others while this process ends. It may wait for
// the main thread, which may wait for the GPU: not for long.
void RankWatch::abort_collectives() {
  std::packaged_task<void()> task([this] { group_.abort_collectives(); });
  const std::future<void> done = task.get_future();
  std::thread(std::move(task)).detach();
  done.wait_for(abort_time);
}

// Rank 0 passes it on.
void RankWatch::report(RankFailure failure) {
  failure.host = hosts_[static_cast<size_t>(failure.rank)];
  if (rank_ == 0) {
    tell_all(fmt::format("fail {} {} {}", failure.rank, failure.code, failure.reason));
  }
  abort_collectives();
  on_failure_(failure);
}

}  // namespace whisker
