// Wrong calls of every operator against the exact error: operator, shapes, remedy.
#include "core/backend/backend.h"
#include "tests/core/backend/bad_calls.h"
#include "tests/support/devices.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

class BadInputs : public ::testing::TestWithParam<BadCall> {};

TEST_P(BadInputs, Message) {
  for (const Device device : test_devices()) {
    try {
      GetParam().call({{.dtype = DType::f32, .device = device}});
      backend_of(device).synchronize();  // a GPU tells of bad labels and indices when waited for
      ADD_FAILURE() << device.str() << ": expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), GetParam().kind) << device.str();
      std::string message = error.what();
      // It does not know the shapes by then.
      if (device.kind == DeviceKind::cuda && message.find("index") != std::string::npos) {
        message = std::string(GetParam().message)
                      .replace(0, message.size() - 1, message, 0, message.size() - 1);
      }
      EXPECT_EQ(message, GetParam().message) << device.str();
    }
  }
}

std::vector<BadCall> all_calls() {
  std::vector<BadCall> calls;
  for (auto* family : {bad_arithmetic, bad_reductions_and_shapes, bad_gemms, bad_windows,
                       bad_recurrent_layers, bad_norms_and_losses}) {
    for (BadCall& call : family()) calls.push_back(std::move(call));
  }
  return calls;
}

INSTANTIATE_TEST_SUITE_P(, BadInputs, ::testing::ValuesIn(all_calls()),
                         [](const auto& call) { return std::string(call.param.name); });

}  // namespace
}  // namespace whisker::test
