#include "core/communicator/socket.h"

#include "core/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    fail(ErrorKind::device, "MASTER_ADDR: no address for '{}' ({}).", host, gai_strerror(error));
  }
  return {found, &freeaddrinfo};
}

FileDescriptor socket_for(const addrinfo& address) {
  return FileDescriptor(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

void send_at_once(const FileDescriptor& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Waits for `event`, something to read or space to write; false when it does not come until then.
bool ready_for(short event, const FileDescriptor& socket, std::optional<Deadline> deadline) {
  for (;;) {
    int wait_ms = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      wait_ms = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
    pollfd one{.fd = socket.get(), .events = event, .revents = 0};
    const int ready = ::poll(&one, 1, wait_ms);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

bool receive_bytes(const FileDescriptor& socket, char* data, size_t count,
                   std::optional<Deadline> deadline) {
  while (count > 0) {
    if (deadline && !ready_for(POLLIN, socket, deadline)) return false;
    const ssize_t got = ::recv(socket.get(), data, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

/// An address that drops packets answers nothing for minutes: the socket does not block meanwhile.
bool connects(const FileDescriptor& socket, const addrinfo& address, Deadline deadline) {
  const int flags = ::fcntl(socket.get(), F_GETFL);
  ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    int error = errno;
    socklen_t size = sizeof error;
    if (error != EINPROGRESS || !ready_for(POLLOUT, socket, deadline)) return false;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return false;
  }
  ::fcntl(socket.get(), F_SETFL, flags);
  return true;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return ntohl(ip.s_addr) >> 24 == 127;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool is_number(const std::string& address) {
  in6_addr any = {};
  return ::inet_pton(AF_INET, address.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), &any) == 1;
}

bool send_bytes(const FileDescriptor& socket, const char* data, size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(socket.get(), data, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

Deadline in_seconds(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

FileDescriptor listen_at(const std::string& address, int port) {
  const Addresses found = addresses_of(address, port);
  int error = 0;
  for (const addrinfo* one = found.get(); one; one = one->ai_next) {
    FileDescriptor listener = socket_for(*one);
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener && ::bind(listener.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
    error = errno;
  }
  fail(ErrorKind::device,
       "rank 0 cannot listen at {}:{}: {}. Another run may use this port: set MASTER_PORT to one "
       "that is free, the same for all ranks.",
       address, port, std::strerror(error));
}

std::string listening_address(const std::string& address, bool from_others) {
  if (!from_others || address == "localhost" || is_number(address)) return address;
  const Addresses found = addresses_of(address, 0);
  for (const addrinfo* one = found.get(); one; one = one->ai_next) {
    if (!is_loopback(*one->ai_addr)) return address;
  }
  return "0.0.0.0";
}

int port_of(const FileDescriptor& listener) {
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

std::optional<FileDescriptor> accept_until(const FileDescriptor& listener, Deadline deadline) {
  while (ready_for(POLLIN, listener, deadline)) {
    FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;  // it went away again
    send_at_once(socket);
    return socket;
  }
  return std::nullopt;
}

std::optional<FileDescriptor> connect_until(const std::string& address, int port,
                                            Deadline deadline) {
  const Addresses found = addresses_of(address, port);
  do {
    for (const addrinfo* one = found.get(); one; one = one->ai_next) {
      FileDescriptor socket = socket_for(*one);
      if (socket && connects(socket, *one, deadline)) {
        send_at_once(socket);
        return socket;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < deadline);
  return std::nullopt;
}

bool send_message(const FileDescriptor& socket, std::string_view bytes) {
  const uint64_t size = bytes.size();
  std::string framed(reinterpret_cast<const char*>(&size), sizeof size);
  framed += bytes;
  return send_bytes(socket, framed.data(), framed.size());
}

std::optional<std::string> receive_message(const FileDescriptor& socket, size_t most,
                                           std::optional<Deadline> deadline) {
  uint64_t size = 0;
  if (!receive_bytes(socket, reinterpret_cast<char*>(&size), sizeof size, deadline)) return {};
  if (size > most) return {};
  std::string bytes(size, '\0');
  if (!receive_bytes(socket, bytes.data(), size, deadline)) return {};
  return bytes;
}

}  // namespace whisker
