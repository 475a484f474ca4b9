// A time for messages.
#pragma once

#include <string>

namespace whisker {

/// "1 h 02 min", "3 min 05 s", "4.2 s".
std::string human_seconds(double seconds);

}  // namespace whisker
