#include "core/communicator/tcp_group.h"

#include "core/communicator/greetings.h"
#include "core/error.h"
#include "core/work_progress.h"

#include <charconv>

#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr size_t longest_greeting = 4096;
constexpr size_t longest_message = size_t{1} << 30;
constexpr std::string_view welcome = "welcome";

// "whisker 1 RANK WORLD SECRET"
std::string greeting(const RankEnvironment& environment) {
  return fmt::format("whisker 1 {} {} {}", environment.rank, environment.world, environment.secret);
}

// Why the rank that said `text` is refused, or its rank.
struct Guest {
  int rank = -1;
  std::string refusal;
};

Guest guest_of(const std::string& text, const RankEnvironment& host) {
  constexpr std::string_view begin = "whisker 1 ";
  int rank = -1, world = -1;
  const char* const end = text.data() + text.size();
  const char* at = text.data() + std::min(begin.size(), text.size());
  if (!text.starts_with(begin)) return {.refusal = "it is no rank of this program"};
  at = std::from_chars(at, end, rank).ptr;
  if (at != end) at = std::from_chars(at + 1, end, world).ptr;
  const std::string_view secret = at == end ? std::string_view() : std::string_view(at + 1, end);
  if (secret != host.secret) return {.refusal = "its secret is not this run's"};
  if (world != host.world) {
    return {.refusal = fmt::format("it expects {} ranks, rank 0 {}", world, host.world)};
  }
  if (rank < 1 || rank >= world) return {.refusal = fmt::format("rank {} cannot be", rank)};
  return {.rank = rank, .refusal = ""};
}

}  // namespace

TcpGroup::TcpGroup(const RankEnvironment& environment, double seconds) : RankGroup(environment) {
  if (leads()) {
    wait_for_others(environment, seconds);
  } else {
    join(environment, seconds);
  }
}

void TcpGroup::wait_for_others(const RankEnvironment& environment, double seconds) {
  const FileDescriptor listener =
      listen_at(listening_address(environment.address, !environment.one_machine), environment.port);
  const Deadline deadline = in_seconds(seconds);
  sockets_.resize(static_cast<size_t>(world()));
  std::vector<int> missing;
  for (int rank = 1; rank < world(); ++rank) missing.push_back(rank);
  std::string refused;
  Greetings greetings(listener, longest_greeting);
  while (!missing.empty()) {
    std::optional<Greetings::Guest> next = greetings.next(deadline);
    if (!next) {
      fail(ErrorKind::device,
           "rank 0 waited {:.0f} s at {}:{} for {} ranks, but rank{} {} did not come{}. Start all "
           "ranks with the same MASTER_ADDR and MASTER_PORT.",
           seconds, environment.address, environment.port, world(), missing.size() == 1 ? "" : "s",
           fmt::format("{}", fmt::join(missing, ", ")), refused);
    }
    Guest guest = guest_of(next->greeting, environment);
    if (guest.refusal.empty() && std::erase(missing, guest.rank) == 0) {
      guest.refusal = fmt::format("rank {} is there already", guest.rank);
    }
    if (!guest.refusal.empty()) {
      refused = fmt::format(" (a connection was refused: {})", guest.refusal);
      send_message(next->socket, guest.refusal);
      continue;
    }
    sockets_[static_cast<size_t>(guest.rank)] = std::move(next->socket);
  }
  for (int rank = 1; rank < world(); ++rank) {
    send_message(sockets_[static_cast<size_t>(rank)], welcome);
  }
}

void TcpGroup::join(const RankEnvironment& environment, double seconds) {
  const Deadline deadline = in_seconds(seconds);
  std::optional<FileDescriptor> socket =
      connect_until(environment.address, environment.port, deadline);
  std::optional<std::string> answer;
  if (socket && send_message(*socket, greeting(environment))) {
    answer = receive_message(*socket, longest_greeting, deadline);
  }
  if (!answer) {
    fail(ErrorKind::device,
         "rank {}: rank 0 did not answer at {}:{} within {:.0f} s. Start all ranks with the same "
         "MASTER_ADDR and MASTER_PORT.",
         rank(), environment.address, environment.port, seconds);
  }
  if (*answer != welcome) {
    fail(ErrorKind::device, "rank {}: rank 0 at {}:{} refused it: {}.", rank(), environment.address,
         environment.port, *answer);
  }
  sockets_.push_back(std::move(*socket));
}

std::vector<std::string> TcpGroup::all_gather(std::string_view bytes) {
  const WaitScope waits(Waiting::ranks);
  std::vector<std::string> all(static_cast<size_t>(world()));
  const auto receive = [&](size_t socket, int from) {
    std::optional<std::string> message = receive_message(sockets_[socket], longest_message);
    if (!message) fail(ErrorKind::device, "rank {}: rank {} ended.", rank(), from);
    return std::move(*message);
  };
  if (!leads()) {
    send_message(sockets_[0], bytes);  // a rank 0 that is gone answers nothing
    for (std::string& one : all) one = receive(0, 0);
    return all;
  }
  all[0] = bytes;
  for (size_t from = 1; from < all.size(); ++from) {
    all[from] = receive(from, static_cast<int>(from));
  }
  for (size_t to = 1; to < all.size(); ++to) {
    for (const std::string& one : all) send_message(sockets_[to], one);
  }
  return all;
}

}  // namespace whisker
