// Tests of small trainings on the CPU and on a GPU.
#pragma once

#include "tests/support/devices.h"
#include "tests/support/tiny_training.h"

#include <string>
#include <vector>

namespace whisker::test {

/// Each test with images of its own.
class TrainingOn : public NetworkOn {
 protected:
  /// As StripeFolder's, for this test's device.
  Config config(std::vector<std::string> overrides = {}) const {
    overrides.push_back("device=" + GetParam().str());
    return data_.config(overrides);
  }
  const StripeFolder data_;
};

}  // namespace whisker::test
