// Images whose maxima are told apart in 16 bits, too.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>
#include <vector>

namespace whisker::test {

/// (N,H,W,C) so far apart within every window of 3x3 that 16 bits tell all elements apart, also
/// once they are normalised: nine levels by row and column modulo 3, in another order for each
/// channel of each image.
inline std::vector<double> separated(const Shape& shape) {
  std::vector<double> values =
      rand_uniform(shape, -0.2, 0.2, 17, 0, {.device = reference_device}).to_vector();
  size_t at = 0;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t row = 0; row < shape[1]; ++row) {
      for (int64_t column = 0; column < shape[2]; ++column) {
        for (int64_t c = 0; c < shape[3]; ++c) {
          const int64_t place = row % 3 * 3 + column % 3;
          values[at++] += 2 + static_cast<double>((place * (c % 2 == 0 ? 2 : 5) + n + 4 * c) % 9);
        }
      }
    }
  }
  return values;
}

}  // namespace whisker::test
