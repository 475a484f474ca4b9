// What an action refuses, for tests to compare.
#pragma once

#include "core/error.h"

#include <string>

namespace whisker::test {

/// The message of the Error that fn throws, with its kind in front ("2: ..."); "" when none.
template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + ": " + error.what();
  }
  return "";
}

}  // namespace whisker::test
