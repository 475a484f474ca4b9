// Antialiased ellipses and tapered strokes, painted one over the other from the background to the
// whiskers. A shape is a signed distance (negative inside; after Quilez, "2D distance functions");
// a pixel's coverage is its distance in pixels, cut to one pixel's width. The head's centre is the
// origin of a face, its radius about 1, y points down.
//
// A seed gives the same pixels on every machine: only operations that IEEE 754 rounds exactly (no
// sine, no hypot, no contraction: see CMakeLists.txt), and one random number per statement or
// brace, as the order of a call's arguments is not fixed.
#include "data/synthetic/draw_face.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <vector>

namespace whisker {
namespace {

using Point = std::complex<double>;  // the product with a unit vector turns
using Color = std::array<double, 3>;

constexpr Color dark = {0.08, 0.06, 0.06};
constexpr Color white = {0.97, 0.97, 0.95};

double length(Point a) {
  return std::sqrt(std::norm(a));
}
/// The unit vector at the angle 2 atan(t).
Point direction(double t) {
  return Point{1 - t * t, 2 * t} / (1 + t * t);
}
Color mix(const Color& a, const Color& b, double share_of_b) {
  Color mixed{};
  for (size_t c = 0; c < 3; ++c) mixed[c] = a[c] + (b[c] - a[c]) * share_of_b;
  return mixed;
}

class Scene {
 public:
  Scene(int height, int width, PhiloxStream& random)
      : height_(height), width_(width), pixels_(size_t(height) * size_t(width)), random_(random) {}

  void draw_background();
  /// Chooses colours, pose and light; draws the chest, and a collar now and then.
  void draw_body();
  void draw_cat();
  void draw_dog();
  /// Blur, exposure and noise over everything.
  Image develop();

 private:
  double uniform(double low, double high) { return random_.uniform(low, high); }
  bool chance(double probability) { return random_.uniform() < probability; }
  Color any_color() { return {uniform(0.1, 0.95), uniform(0.1, 0.95), uniform(0.1, 0.95)}; }
  /// A point of the face at depth z, 0 the middle of the head: it follows the head's turn.
  Point at(double x, double y, double z = 0.2) const { return {x + turn_ * z, y}; }

  size_t index(int x, int y) const { return size_t(y) * size_t(width_) + size_t(x); }

  template <class Distance>
  void paint(Point center, double reach, const Color& color, double opacity, Distance distance) {
    const Point middle = origin_ + center * axis_ * scale_;
    const double radius = reach * scale_ + 1;
    const auto bound = [](double at, int end) {
      return static_cast<int>(std::clamp<double>(at, 0, end));
    };
    const int y_end = bound(middle.imag() + radius + 1, height_);
    const int x_end = bound(middle.real() + radius + 1, width_);
    for (int y = bound(middle.imag() - radius, height_); y < y_end; ++y) {
      for (int x = bound(middle.real() - radius, width_); x < x_end; ++x) {
        const Point at = (Point{x + 0.5, y + 0.5} - origin_) * std::conj(axis_) / scale_;
        const double share = opacity * std::clamp(0.5 - distance(at) * scale_, 0.0, 1.0);
        const double brightness = std::max(0.0, 1 + (at * std::conj(light_)).real());
        Color& under = pixels_[index(x, y)];
        for (size_t c = 0; c < 3; ++c) under[c] += share * (color[c] * brightness - under[c]);
      }
    }
  }

  void ellipse(Point center, Point radius, const Color& color, double opacity = 1, Point axis = 1) {
    const double a = radius.real(), b = radius.imag();
    paint(center, std::max(a, b), color, opacity, [&](Point p) {
      const Point q = (p - center) * std::conj(axis);
      const double outer = length({q.real() / a, q.imag() / b});
      const double slope = length({q.real() / (a * a), q.imag() / (b * b)});
      return slope > 0 ? outer * (outer - 1) / slope : -std::min(a, b);
    });
  }

  /// The width goes from `begin` at a to `end` at b.
  void stroke(Point a, Point b, double begin, double end, const Color& color, double opacity = 1) {
    const Point along = b - a;
    const double reach = length(along) / 2 + std::max(begin, end);
    paint((a + b) / 2.0, reach, color, opacity, [&](Point p) {
      const double at =
          std::clamp(((p - a) * std::conj(along)).real() / std::norm(along), 0.0, 1.0);
      return length(p - a - along * at) - (begin + (end - begin) * at) / 2;
    });
  }

  /// Moves each pixel by `weight` towards each of its four neighbours.
  void soften(double weight) {
    const std::vector<Color> before = pixels_;
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        const size_t here = index(x, y);
        for (const size_t there :
             {index(std::max(x - 1, 0), y), index(x, std::max(y - 1, 0)),
              index(std::min(x + 1, width_ - 1), y), index(x, std::min(y + 1, height_ - 1))}) {
          for (size_t c = 0; c < 3; ++c) {
            pixels_[here][c] += weight * (before[there][c] - before[here][c]);
          }
        }
      }
    }
  }

  void draw_head(Point radius);
  void draw_eye(Point eye, Point size, Point pupil, const Color& iris, Point axis = 1);
  void draw_mouth(Point top, double drop, double width);

  int height_;
  int width_;
  std::vector<Color> pixels_;
  PhiloxStream& random_;
  Point origin_ = 0;  // where units of drawing lie: moved, scaled to pixels, turned
  double scale_ = 1;
  Point axis_ = 1;
  Point light_ = 0;  // change of brightness per unit
  double turn_ = 0;  // of the head, to one side
  Color fur_{}, marks_{}, pale_{};
  uint32_t coat_ = 0;
};

void Scene::draw_background() {
  const Color first = any_color();
  const Color other = any_color();
  const Color second = mix(first, other, uniform(0.2, 0.9));
  const Point slope = direction(uniform(-1, 1));
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      const Point at{double(x) / width_ - 0.5, double(y) / height_ - 0.5};
      pixels_[index(x, y)] = mix(first, second, 0.5 + (at * slope).real());
    }
  }
  scale_ = width_;
  for (auto shapes = 2 + random_.below(8); shapes > 0; --shapes) {
    const Color color = any_color();
    const double opacity = uniform(0.3, 0.9);
    const Point a{uniform(0, 1), uniform(0, 1)};
    const Point b{uniform(0.05, 1), uniform(0.05, 1)};
    if (chance(0.5)) {
      stroke(a, b, 0.06 * b.real(), 0.06 * b.imag(), color, opacity);
    } else {
      ellipse(a, b * 0.35, color, opacity, direction(uniform(-1, 1)));
    }
  }
  for (auto passes = random_.below(12); passes > 0; --passes) soften(0.2);
  if (chance(0.6)) return;
  const Color speckle = any_color();
  for (auto speckles = 50 + random_.below(200); speckles > 0; --speckles) {
    const Point center{uniform(0, 1), uniform(0, 1.5)};
    const Point radius{uniform(0.004, 0.02), uniform(0.004, 0.02)};
    ellipse(center, radius, speckle, uniform(0.2, 0.8));
  }
}

void Scene::draw_body() {
  constexpr std::array<Color, 8> furs = {
      Color{0.13, 0.12, 0.12}, {0.42, 0.42, 0.45}, {0.80, 0.50, 0.22}, {0.90, 0.87, 0.82},
      {0.45, 0.29, 0.17},      {0.68, 0.56, 0.42}, {0.86, 0.70, 0.48}, {0.30, 0.24, 0.21}};
  fur_ = furs[random_.below(8)];
  fur_ = mix(fur_, any_color(), 0.1);
  marks_ = furs[random_.below(8)];
  marks_ = mix(fur_, fur_[1] > 0.35 ? dark : marks_, uniform(0.35, 0.8));
  pale_ = mix(fur_, white, uniform(0.35, 0.9));
  coat_ = random_.below(4);
  turn_ = uniform(-0.5, 0.5);

  origin_ = {width_ * uniform(0.4, 0.6), height_ * uniform(0.46, 0.58)};
  scale_ = std::min(height_, width_) * uniform(0.24, 0.36);
  axis_ = direction(uniform(-0.18, 0.18));
  light_ = direction(uniform(-1, 1));
  light_ *= uniform(-0.22, 0.22);

  const double width = uniform(0.75, 1.15);
  ellipse({uniform(-0.15, 0.15), 1.9}, {width, 1.35}, fur_);
  if (chance(0.4)) ellipse({0, 1.75}, {width / 2, 0.9}, pale_);
  if (chance(0.25)) stroke({-0.6 * width, 1}, {0.6 * width, 1}, 0.14, 0.14, any_color());
}

void Scene::draw_head(Point radius) {
  ellipse(0, radius, fur_);
  if (coat_ == 1) {  // striped
    for (const double x : {-0.34, -0.17, 0.0, 0.17, 0.34}) {
      stroke({x, -0.9 * radius.imag()}, {0.75 * x, -0.34}, 0.09, 0.02, marks_, 0.8);
    }
  } else if (coat_ == 2) {  // a pale blaze
    ellipse(at(0, 0.45), {0.55 * radius.real(), 0.42}, pale_);
    ellipse(at(0, -0.25), {0.13, 0.6}, pale_);
  } else if (coat_ == 3) {  // a patch
    const Point patch = at(uniform(-0.45, 0.45), -0.18);
    ellipse(patch, {uniform(0.25, 0.4), uniform(0.25, 0.4)}, marks_);
  }
}

void Scene::draw_eye(Point eye, Point size, Point pupil, const Color& iris, Point axis) {
  ellipse(eye, size * 1.2, dark, 1, axis);
  ellipse(eye, size, iris, 1, axis);
  ellipse(eye, pupil, dark);
  ellipse(eye - size * 0.3, {0.035, 0.035}, white, 0.9);
}

void Scene::draw_mouth(Point top, double drop, double width) {
  const Point lip = top + Point{0, drop};
  stroke(top, lip, 0.04, 0.04, dark, 0.85);
  for (const double side : {-width, width}) {
    const Point low = lip + Point{side * 0.5, width * 0.35};
    stroke(lip, low, 0.04, 0.035, dark, 0.85);
    stroke(low, lip + side, 0.035, 0.02, dark, 0.85);
  }
}

/// Pointed ears, large slanted eyes with slit or round pupils, a small nose, whiskers.
void Scene::draw_cat() {
  const Point head{uniform(0.92, 1.05), uniform(0.76, 0.88)};
  const Color pink = mix({0.86, 0.53, 0.53}, dark, uniform(0, 0.35));
  const double ear = uniform(1.05, 1.35);
  for (const double side : {-1.0, 1.0}) {
    const Point base{side * 0.52, -0.4};
    const Point tip{side * uniform(0.65, 0.95), -ear};
    stroke(base, tip, 0.8, 0.04, coat_ == 0 ? fur_ : mix(fur_, marks_, 0.6));
    stroke(base, base + (tip - base) * 0.8, 0.5, 0.03, mix(pink, fur_, 0.25));
  }
  draw_head(head);

  const double muzzle = uniform(0.19, 0.25);
  ellipse(at(0, 0.56, 0.3), {0.2, 0.13}, pale_);
  const Color iris = mix({0.9, 0.6, 0.1}, {0.3, 0.7, 0.7}, uniform(0, 1));
  const Point size{uniform(0.19, 0.25), uniform(0.15, 0.21)};
  const double slit = uniform(0.18, 0.75) * size.imag();
  const Point pupil{slit, std::max(slit, size.imag() * 0.9)};
  const double slant = uniform(0.05, 0.18);
  for (const double side : {-1.0, 1.0}) {
    ellipse(at(side * 0.16, 0.4, 0.35), {muzzle, 0.17}, pale_);
    draw_eye(at(side * 0.41, -0.1), size, pupil, iris, direction(-side * slant));
  }
  ellipse(at(0, 0.26, 0.45), {0.11, 0.07}, pink);
  draw_mouth(at(0, 0.3, 0.42), 0.1, 0.2);

  const Color hair = fur_[1] > 0.7 ? mix(dark, white, 0.2) : white;
  const double reach = uniform(1.05, 1.4);
  const double droop = uniform(-0.1, 0.2);
  for (const double side : {-reach, reach}) {
    for (const double rise : {-1.0, 0.0, 1.0}) {
      const Point end{side * uniform(0.9, 1.05) + 0.2 * turn_, 0.43 + 0.27 * rise + droop};
      stroke(at(side * 0.2, 0.43 + 0.07 * rise, 0.35), end, 0.03, 0.012, hair, 0.9);
    }
  }
}

/// Floppy ears, small dark eyes, a long muzzle with a big nose, a tongue now and then.
void Scene::draw_dog() {
  const Point head{uniform(0.70, 0.86), uniform(0.82, 0.98)};
  const Point ear{uniform(0.22, 0.32), uniform(0.46, 0.72)};
  const double lean = uniform(0.02, 0.22);
  const auto draw_ears = [&] {
    const Color color = mix(fur_, marks_, coat_ == 0 ? 0.35 : 1);
    for (const double side : {-1.0, 1.0}) {
      const Point root{side * head.real() * 0.82, -head.imag() * 0.62};
      const Point center = root + Point{side * (0.1 + lean), ear.imag() * 0.82};
      ellipse(center, ear, color, 1, direction(-side * lean));
      ellipse(root + Point{side * 0.04, 0.08}, {0.24, 0.2}, color);
    }
  };
  const bool ears_behind = chance(0.4);
  if (ears_behind) draw_ears();
  ellipse(at(0, 0.35, 0.15), {head.real() * 0.88, 0.6}, fur_);
  draw_head(head);
  if (!ears_behind) draw_ears();

  if (chance(0.65)) {
    const Point size{uniform(0.13, 0.19), uniform(0.24, 0.36)};
    const Point tongue = at(uniform(-0.06, 0.06), 0.72 + size.imag() * 0.75, 0.5);
    ellipse(tongue, size, {0.88, 0.42, 0.45});
    stroke(tongue - Point{0, 0.2}, tongue + Point{0, 0.15}, 0.03, 0.02, {0.56, 0.28, 0.3}, 0.8);
  }
  const Point muzzle{uniform(0.36, 0.48), uniform(0.34, 0.46)};
  ellipse(at(0, 0.46, 0.5), muzzle, pale_);
  const Color iris = mix({0.45, 0.27, 0.12}, {0.16, 0.10, 0.07}, uniform(0, 1));
  const double size = uniform(0.1, 0.145);
  for (const double side : {-1.0, 1.0}) {
    ellipse(at(side * 0.17, 0.62, 0.5), {0.26, 0.2}, pale_);
    draw_eye(at(side * 0.34, -0.16), {size, size}, Point{0.5, 0.5} * size, iris);
  }
  const Point nose = at(0, 0.26, 0.65);
  ellipse(nose, Point{0.2, 0.14} * uniform(0.9, 1.2), dark);
  ellipse(nose - Point{0.05, 0.05}, {0.06, 0.03}, white, 0.55);
  draw_mouth(nose, 0.4, 0.4);
}

Image Scene::develop() {
  soften(uniform(0, 0.2));
  const double gain = uniform(0.75, 1.2);
  const double lift = uniform(-0.06, 0.08);
  const double noise = uniform(0.005, 0.05);
  Image image;
  image.reshape(height_, width_);
  for (size_t i = 0; i < pixels_.size(); ++i) {
    // One random word per pixel: three bytes of colour noise, one for all three colours.
    const uint32_t word = random_.next();
    const auto level = [&](size_t byte) { return ((word >> (8 * byte)) & 255) / 127.5 - 1; };
    for (size_t c = 0; c < 3; ++c) {
      const double value = pixels_[i][c] * gain + lift + noise * (level(3) + 0.5 * level(c));
      image.rgb[3 * i + c] = static_cast<uint8_t>(std::clamp(value, 0.0, 1.0) * 255 + 0.5);
    }
  }
  return image;
}

}  // namespace

Image draw_face(Animal animal, int height, int width, PhiloxStream& random) {
  Scene scene(height, width, random);
  scene.draw_background();
  scene.draw_body();
  animal == Animal::cat ? scene.draw_cat() : scene.draw_dog();
  return scene.develop();
}

}  // namespace whisker
