// Connections at a listener, each with the first message that it sends. They are read side by side:
// whoever connects and says nothing keeps nobody waiting.
#pragma once

#include "core/communicator/socket.h"

#include <optional>
#include <string>
#include <vector>

namespace whisker {

class Greetings {
 public:
  /// Accepts messages up to `longest` bytes on `listener`, which outlives this; a connection that
  /// says more, or nothing within `patience_s`, is closed.
  Greetings(const FileDescriptor& listener, size_t longest, double patience_s = 5);

  struct Guest {
    FileDescriptor socket;
    std::string greeting;
  };
  /// The next connection whose message is complete; nothing when none is until then.
  std::optional<Guest> next(Deadline deadline);

 private:
  struct Pending {
    FileDescriptor socket;
    std::string bytes = {};
    Deadline until;
  };
  enum class Reading : uint8_t { more, complete, useless };
  void accept_one();
  Reading read_some(Pending& one) const;

  const FileDescriptor& listener_;
  size_t longest_;
  double patience_s_;
  std::vector<Pending> pending_;
};

}  // namespace whisker
