#include "core/communicator/greetings.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace whisker {
namespace {

constexpr size_t most_pending = 512;  // strangers do not use up all descriptors: 1024 as a rule
constexpr size_t size_bytes = sizeof(uint64_t);  // of the size, as send_message() writes it

}  // namespace

Greetings::Greetings(const FileDescriptor& listener, size_t longest, double patience_s)
    : listener_(listener), longest_(longest), patience_s_(patience_s) {}

std::optional<Greetings::Guest> Greetings::next(Deadline deadline) {
  for (;;) {
    const Deadline now = in_seconds(0);
    std::erase_if(pending_, [&](const Pending& one) { return one.until < now; });
    if (now >= deadline) return std::nullopt;
    Deadline wake = deadline;
    std::vector<pollfd> sockets = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Pending& one : pending_) {
      sockets.push_back({.fd = one.socket.get(), .events = POLLIN, .revents = 0});
      wake = std::min(wake, one.until);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - now);
    ::poll(sockets.data(), sockets.size(), static_cast<int>(left.count()));
    for (size_t i = pending_.size(); i-- > 0;) {
      if (sockets[i + 1].revents == 0) continue;
      const Reading reading = read_some(pending_[i]);
      if (reading == Reading::more) continue;
      Pending one = std::move(pending_[i]);
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      if (reading == Reading::complete) {
        return Guest{.socket = std::move(one.socket), .greeting = one.bytes.substr(size_bytes)};
      }
    }
    if (sockets[0].revents != 0) accept_one();
  }
}

void Greetings::accept_one() {
  std::optional<FileDescriptor> socket = accept_until(listener_, in_seconds(0));
  if (!socket) return;
  if (pending_.size() == most_pending) pending_.erase(pending_.begin());  // the oldest
  pending_.push_back({.socket = std::move(*socket), .until = in_seconds(patience_s_)});
}

// No more than the greeting: what follows is for whoever gets the connection.
Greetings::Reading Greetings::read_some(Pending& one) const {
  std::array<char, 4096> block;
  const auto size_of_message = [&] {
    uint64_t size = 0;
    std::memcpy(&size, one.bytes.data(), size_bytes);
    return size;
  };
  for (;;) {
    size_t wanted = size_bytes - std::min(size_bytes, one.bytes.size());
    if (wanted == 0) {
      if (size_of_message() > longest_) return Reading::useless;
      wanted = size_bytes + size_of_message() - one.bytes.size();
      if (wanted == 0) return Reading::complete;
    }
    const ssize_t got =
        ::recv(one.socket.get(), block.data(), std::min(wanted, block.size()), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Reading::more;
    if (got <= 0) return Reading::useless;
    one.bytes.append(block.data(), static_cast<size_t>(got));
  }
}

}  // namespace whisker
