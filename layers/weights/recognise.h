// Which preset a weights file without a description is of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// A tensor of a weights file.
struct NamedShape {
  std::string name;
  std::vector<uint64_t> shape;
};

/// The preset whose parameters have exactly these names and shapes, but for its head's number of
/// classes; "" when there is none.
std::string recognise_preset(std::span<const NamedShape> tensors);

}  // namespace whisker
