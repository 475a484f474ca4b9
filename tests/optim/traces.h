// PyTorch's optimizer and schedule results (optimizer_traces.json, made by
// scripts/make_optimizer_traces.py) and the closed formulas they started from.
#pragma once

#include "core/parameters/parameters.h"
#include "tests/support/json_fixture.h"

#include <string_view>
#include <vector>

namespace whisker::traces {

const JsonValue& file();
using test::numbers_of;
double number_or(const JsonValue& object, std::string_view key, double fallback);

inline constexpr int parameter_count = 7;
inline constexpr int step_count = 10;
/// Gradient of step t (from 1), by the script's formula.
std::vector<double> gradient(int t);

/// An arena holding the script's seven initial values as one parameter named "w".
struct Model {
  std::shared_ptr<Parameter> parameter;
  ParameterArena arena;
  Model(Device device, DType dtype);
  void set_gradient(int t);
  std::vector<double> values() const;
};

}  // namespace whisker::traces
