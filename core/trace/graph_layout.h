// Places the boxes of a directed acyclic graph in rows, for images: the method of Sugiyama,
// Tagawa and Toda (1981), "Methods for visual understanding of hierarchical system structures".
// Coordinates are in the units of the boxes, y grows downwards.
#pragma once

#include <cstddef>
#include <vector>

namespace whisker {

struct LayoutPoint {
  double x = 0, y = 0;
};

/// A box to place. Edges meet it at its anchor: `anchor` from its left side.
struct LayoutBox {
  double width = 0, height = 0;
  double anchor = 0;
  LayoutPoint corner = {};  ///< top left; a result
  int row = 0;              ///< a result
};

struct LayoutEdge {
  size_t from = 0, to = 0;
  /// Result: bottom of `from`, then where to enter and leave each row between, then top of `to`.
  std::vector<LayoutPoint> points = {};
};

struct GraphLayout {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutEdge> edges;  ///< acyclic; several between two boxes are allowed
  double row_gap = 34, column_gap = 26;
  double width = 0, height = 0;  ///< results; the image begins at (0, 0)

  /// Rows by longest path, order within a row by barycenters, columns by least squares. No two
  /// boxes overlap. Throws usage when the graph has a cycle.
  void place();
};

}  // namespace whisker
