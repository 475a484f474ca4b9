// Distances to shapes (after Quilez, "2D distance functions") and painting by coverage.
#include "data/canvas.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace whisker {
namespace {

double dot(Vec2 a, Vec2 b) {
  return a.x * b.x + a.y * b.y;
}
double length(Vec2 a) {
  return std::sqrt(dot(a, a));
}
/// A rotation, its sine and cosine taken once.
struct Turn {
  explicit Turn(double angle) : cosine(std::cos(angle)), sine(std::sin(angle)) {}
  double cosine;
  double sine;
  Vec2 operator()(Vec2 a) const { return {cosine * a.x - sine * a.y, sine * a.x + cosine * a.y}; }
};

/// Share of the way from a to b nearest to p, and how far away that is.
struct Nearest {
  double at = 0;
  double distance = 0;
};
Nearest nearest_on_segment(Vec2 p, Vec2 a, Vec2 b) {
  const Vec2 along = b - a;
  const double square = dot(along, along);
  const double at = square > 0 ? std::clamp(dot(p - a, along) / square, 0.0, 1.0) : 0.0;
  return {at, length(p - a - along * at)};
}

}  // namespace

Color mix(const Color& a, const Color& b, double share_of_b) {
  Color mixed{};
  for (size_t c = 0; c < 3; ++c) mixed[c] = a[c] + (b[c] - a[c]) * share_of_b;
  return mixed;
}

Canvas::Canvas(int height, int width)
    : height_(height),
      width_(width),
      rgb_(static_cast<size_t>(height) * static_cast<size_t>(width) * 3) {}

// `low` and `high` bound the shape in drawing units.
template <class Distance>
void Canvas::paint_inside(Vec2 low, Vec2 high, const Paint& paint, Distance distance) {
  const double flip = placement_.mirror ? -1 : 1;
  const Turn turn(placement_.angle);
  const Turn turn_back(-placement_.angle);
  Vec2 first{1e9, 1e9};
  Vec2 last{-1e9, -1e9};
  for (const Vec2 corner : {low, high, Vec2{low.x, high.y}, Vec2{high.x, low.y}}) {
    const Vec2 at = placement_.origin + turn({corner.x * flip, corner.y}) * placement_.scale;
    first = {std::min(first.x, at.x), std::min(first.y, at.y)};
    last = {std::max(last.x, at.x), std::max(last.y, at.y)};
  }
  const int x_begin = std::max(0, static_cast<int>(std::floor(first.x)) - 1);
  const int y_begin = std::max(0, static_cast<int>(std::floor(first.y)) - 1);
  const int x_end = std::min(width_, static_cast<int>(std::ceil(last.x)) + 2);
  const int y_end = std::min(height_, static_cast<int>(std::ceil(last.y)) + 2);
  for (int y = y_begin; y < y_end; ++y) {
    for (int x = x_begin; x < x_end; ++x) {
      Vec2 at = turn_back(Vec2{x + 0.5, y + 0.5} - placement_.origin) * (1 / placement_.scale);
      at.x *= flip;
      const double coverage = std::clamp(0.5 - distance(at) * placement_.scale, 0.0, 1.0);
      if (coverage <= 0) continue;
      const double brightness = std::max(0.0, 1 + dot(paint.shade, at));
      const double share = coverage * paint.opacity;
      float* const rgb = pixel(x, y);
      for (size_t c = 0; c < 3; ++c) {
        rgb[c] += static_cast<float>(share * (paint.color[c] * brightness - rgb[c]));
      }
    }
  }
}

void Canvas::fill(const Ellipse& ellipse, const Paint& paint) {
  const Vec2 r = ellipse.radius;
  const double reach = std::max(r.x, r.y);
  const Vec2 box{reach, reach};
  const Turn turn_back(-ellipse.angle);
  paint_inside(ellipse.center - box, ellipse.center + box, paint, [&](Vec2 p) {
    const Vec2 q = turn_back(p - ellipse.center);
    const double outer = length({q.x / r.x, q.y / r.y});
    const double slope = length({q.x / (r.x * r.x), q.y / (r.y * r.y)});
    return slope > 0 ? outer * (outer - 1) / slope : -std::min(r.x, r.y);
  });
}

void Canvas::fill_polygon(std::span<const Vec2> corners, double rounding, const Paint& paint) {
  Vec2 low = corners[0];
  Vec2 high = corners[0];
  for (const Vec2 corner : corners) {
    low = {std::min(low.x, corner.x), std::min(low.y, corner.y)};
    high = {std::max(high.x, corner.x), std::max(high.y, corner.y)};
  }
  const Vec2 grown{rounding, rounding};
  paint_inside(low - grown, high + grown, paint, [&](Vec2 p) {
    double nearest = std::numeric_limits<double>::max();
    bool inside = false;
    for (size_t i = 0; i < corners.size(); ++i) {
      const Vec2 a = corners[i];
      const Vec2 b = corners[(i + 1) % corners.size()];
      nearest = std::min(nearest, nearest_on_segment(p, a, b).distance);
      const bool crosses = (a.y > p.y) != (b.y > p.y);
      if (crosses && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x) inside = !inside;
    }
    return (inside ? -nearest : nearest) - rounding;
  });
}

void Canvas::stroke(const std::array<Vec2, 3>& curve, Width width, const Paint& paint) {
  constexpr size_t pieces = 8;
  std::array<Vec2, pieces + 1> points;
  for (size_t i = 0; i <= pieces; ++i) {
    const double t = static_cast<double>(i) / pieces;
    points[i] = curve[0] * ((1 - t) * (1 - t)) + curve[1] * (2 * t * (1 - t)) + curve[2] * (t * t);
  }
  const double half = std::max(width.from, width.to) / 2;
  Vec2 low = curve[0];
  Vec2 high = curve[0];
  for (const Vec2 point : curve) {
    low = {std::min(low.x, point.x - half), std::min(low.y, point.y - half)};
    high = {std::max(high.x, point.x + half), std::max(high.y, point.y + half)};
  }
  paint_inside(low, high, paint, [&](Vec2 p) {
    double best = std::numeric_limits<double>::max();
    for (size_t i = 0; i < pieces; ++i) {
      const Nearest nearest = nearest_on_segment(p, points[i], points[i + 1]);
      const double t = (static_cast<double>(i) + nearest.at) / pieces;
      best = std::min(best, nearest.distance - (width.from + (width.to - width.from) * t) / 2);
    }
    return best;
  });
}

void Canvas::blur(double radius) {
  if (radius <= 0) return;
  // Weight 1 within `radius`, the fraction at the two ends; each axis in turn.
  const int reach = static_cast<int>(std::ceil(radius));
  std::vector<float> weights;
  for (int offset = -reach; offset <= reach; ++offset) {
    weights.push_back(
        static_cast<float>(std::min(1.0, radius + 1 - std::abs(offset)) / (2 * radius + 1)));
  }
  std::vector<float> before;
  for (const bool vertical : {false, true}) {
    before = rgb_;
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        std::array<float, 3> sum{};
        for (int tap = -reach; tap <= reach; ++tap) {
          const int from_x = vertical ? x : std::clamp(x + tap, 0, width_ - 1);
          const int from_y = vertical ? std::clamp(y + tap, 0, height_ - 1) : y;
          const float* const from =
              before.data() + 3 * (size_t(from_y) * size_t(width_) + size_t(from_x));
          const float weight = weights[static_cast<size_t>(tap + reach)];
          for (size_t c = 0; c < 3; ++c) sum[c] += weight * from[c];
        }
        std::copy(sum.begin(), sum.end(), pixel(x, y));
      }
    }
  }
}

Picture Canvas::picture() const {
  Picture picture;
  picture.reshape(height_, width_);
  for (size_t i = 0; i < rgb_.size(); ++i) {
    picture.rgb[i] = static_cast<uint8_t>(std::lround(std::clamp(rgb_[i], 0.0f, 1.0f) * 255));
  }
  return picture;
}

}  // namespace whisker
