// What an action refuses, for tests to compare.
#pragma once

#include "core/error.h"

#include <string>

#include <gtest/gtest.h>

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

/// The message of the error that fn throws, which is to be of this kind; "no error" when none.
template <class Fn>
std::string message_of(ErrorKind kind, Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

/// Whether fn throws an error of this kind, which is to be one line.
template <class Fn>
bool refused(ErrorKind kind, Fn&& fn) {
  const std::string message = message_of(kind, fn);
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message != "no error";
}

}  // namespace whisker::test
