// What reading a configuration refuses.
#pragma once

#include "tests/support/error_of.h"
#include "train/config/config.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {

/// The usage error that reading gives, or "no error".
inline std::string error_of(const std::string& text,
                            const std::vector<std::string>& overrides = {}) {
  return test::message_of(ErrorKind::usage,
                          [&] { read_config_text(text, "test.yaml", overrides); });
}

}  // namespace whisker
