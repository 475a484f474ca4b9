// What reading a configuration refuses.
#pragma once

#include "train/config.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {

/// The usage error that reading gives, or "accepted".
inline std::string error_of(const std::string& text,
                            const std::vector<std::string>& overrides = {}) {
  try {
    read_config_text(text, "test.yaml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  return "accepted";
}

}  // namespace whisker
