// A small software rasteriser: antialiased ellipses, rounded polygons and strokes painted one over
// the other. Shapes are signed distances (negative inside); a pixel's coverage is its distance in
// pixels, cut to one pixel's width.
#pragma once

#include "data/picture.h"

#include <array>
#include <span>
#include <vector>

namespace whisker {

struct Vec2 {
  double x = 0;
  double y = 0;
};
inline Vec2 operator+(Vec2 a, Vec2 b) {
  return {a.x + b.x, a.y + b.y};
}
inline Vec2 operator-(Vec2 a, Vec2 b) {
  return {a.x - b.x, a.y - b.y};
}
inline Vec2 operator*(Vec2 a, double k) {
  return {a.x * k, a.y * k};
}

/// Color components in [0, 1].
using Color = std::array<double, 3>;
Color mix(const Color& a, const Color& b, double share_of_b);

/// How a shape is filled: its color, darker or lighter towards a side, and how much covers.
struct Paint {
  Color color{};
  double opacity = 1;
  Vec2 shade{};  ///< relative change of brightness per unit of length
};

/// Where drawing units lie on the canvas: turned by `angle`, scaled, moved to `origin`.
struct Placement {
  Vec2 origin;       ///< in pixels
  double scale = 1;  ///< pixels per unit
  double angle = 0;  ///< radians, clockwise as y points down
  bool mirror = false;
};

struct Ellipse {
  Vec2 center;
  Vec2 radius;
  double angle = 0;
};

class Canvas {
 public:
  Canvas(int height, int width);
  int height() const { return height_; }
  int width() const { return width_; }
  /// Applies to the shapes drawn from now on.
  void place(const Placement& placement) { placement_ = placement; }

  void fill(const Ellipse& ellipse, const Paint& paint);
  /// Corners are rounded with radius `rounding`, which also grows the shape by as much.
  void fill_polygon(std::span<const Vec2> corners, double rounding, const Paint& paint);
  /// A quadratic Bezier curve from a by b to c; the width goes from `from` to `to` along it.
  struct Width {
    double from = 0;
    double to = 0;
  };
  void stroke(const std::array<Vec2, 3>& curve, Width width, const Paint& paint);

  /// Components of pixel (x, y).
  float* pixel(int x, int y) { return rgb_.data() + 3 * (size_t(y) * size_t(width_) + size_t(x)); }
  /// Box blur with `radius` pixels (may be fractional), once along each axis.
  void blur(double radius);
  /// Rounded to 8 bits.
  Picture picture() const;

 private:
  template <class Distance>
  void paint_inside(Vec2 low, Vec2 high, const Paint& paint, Distance distance);

  int height_;
  int width_;
  Placement placement_;
  std::vector<float> rgb_;
};

}  // namespace whisker
