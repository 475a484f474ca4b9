// Weights and images from a formula that scripts/make_torchvision_fixtures.py has as well, so that
// PyTorch's networks are compared without their weights in a file.
#pragma once

#include "core/tensor/philox.h"
#include "layers/layers.h"
#include "layers/weights/weights.h"

#include <cmath>
#include <string>
#include <vector>

namespace whisker::test {

/// The script's formula().
inline std::vector<float> formula(const std::string& name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const uint64_t offset = stream_of(name) & 0xffffffffu;
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t word = ((i + 1) * 2654435761u + offset) & 0xffffffffu;
    word = ((word ^ (word >> 15)) * 2246822519u) & 0xffffffffu;
    values[i] = static_cast<float>(static_cast<double>(word) / 0x1p32 - 0.5);
  }
  return values;
}

/// Kaiming-like weights times `gain`, norms around one, tokens and layer scales of deviation one,
/// as the scripts set them; values in file order.
inline void fill_by_formula(const Module& net, ParameterArena& arena, double gain = 1) {
  for (const auto& parameter : net.parameters()) {
    std::vector<float> values = formula(parameter->name(), parameter->shape().count());
    const Shape& shape = parameter->shape();
    const bool is_scale = shape.rank() == 1 && (parameter->name().ends_with("weight") ||
                                                parameter->name().ends_with("running_var"));
    const double scale = shape.rank() == 3
                             ? std::sqrt(12.0)
                             : gain * std::sqrt(12 / static_cast<double>(shape.count() / shape[0]));
    for (float& value : values) {
      if (shape.rank() > 1) value *= static_cast<float>(scale);
      if (is_scale) value += 1;
    }
    arena.write(*parameter, from_file_order(*parameter, values));
  }
}

}  // namespace whisker::test
