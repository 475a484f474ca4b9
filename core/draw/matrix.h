// A confusion matrix as an SVG image, readable for 2 to 200 classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

/// counts (classes, classes): a row per label, a column per prediction. Cells are shaded by their
/// part of the row, right ones in another color than wrong ones.
struct Matrix {
  std::string title;
  std::vector<std::string> classes;
  std::vector<int64_t> counts;
};

/// An SVG document of its own, which may also stand within an HTML page. Up to 20 classes have
/// numbers in their cells, up to 50 their names, more the numbers of their rows. Names are escaped.
std::string matrix_svg(const Matrix& matrix);

}  // namespace whisker
