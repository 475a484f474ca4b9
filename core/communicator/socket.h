// TCP connections between the ranks of a run: framed messages, and time-outs in seconds.
#pragma once

#include "core/io/file.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace whisker {

using Deadline = std::chrono::steady_clock::time_point;
Deadline in_seconds(double seconds);

/// Listens on `address`, a host name or number, at `port` (0: any that is free). Throws device.
FileDescriptor listen_at(const std::string& address, int port);
/// Where rank 0 listens for ranks that look for it at `address`: there, but everywhere when that is
/// a name which only this machine resolves to loopback, as Debian's installer writes its /etc/hosts
/// (127.0.1.1), and `from_others`: ranks of other machines come.
std::string listening_address(const std::string& address, bool from_others);
/// The port that listen_at() was given or found.
int port_of(const FileDescriptor& listener);
/// The next connection, or nothing when none comes until then.
std::optional<FileDescriptor> accept_until(const FileDescriptor& listener, Deadline deadline);
/// Tries again while nobody listens or answers there; nothing when nobody does until then. Throws
/// device for an address that does not exist.
std::optional<FileDescriptor> connect_until(const std::string& address, int port,
                                            Deadline deadline);

/// Whether the other side is still there and took all of it.
bool send_message(const FileDescriptor& socket, std::string_view bytes);
/// Nothing when the other side is gone, or when it sends more than `most` bytes or later than
/// `deadline`.
std::optional<std::string> receive_message(const FileDescriptor& socket, size_t most,
                                           std::optional<Deadline> deadline = std::nullopt);

}  // namespace whisker
