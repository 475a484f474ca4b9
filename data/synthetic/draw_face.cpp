// Antialiased ellipses and tapered strokes, painted one over the other. A shape is a signed
// distance (negative inside; after Quilez, "2D distance functions"). The head's centre is the
// origin of a face, its radius about 1, y points down. A seed gives the same pixels on every
// machine: only operations that IEEE 754 rounds exactly (no sine, no hypot, no contraction: see
// CMakeLists.txt), and one random number per statement or brace, as the order of a call's arguments
// is not fixed.
#include "data/synthetic/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <vector>

namespace whisker {
namespace {

using Point = std::complex<double>;
using Color = std::array<double, 3>;

constexpr Color dark = {0.08, 0.06, 0.06}, white = {0.97, 0.97, 0.95}, pink = {0.8, 0.48, 0.5};
constexpr std::array<Color, 4> furs = {
    Color{0.13, 0.12, 0.12}, {0.80, 0.50, 0.22}, {0.90, 0.87, 0.82}, {0.45, 0.29, 0.17}};

double length(Point a) {
  return std::sqrt(std::norm(a));
}
Color mix(Color a, const Color& b, double share_of_b) {
  for (size_t c = 0; c < 3; ++c) a[c] += (b[c] - a[c]) * share_of_b;
  return a;
}

struct Canvas {
  size_t width;
  std::vector<Color> pixels;
  double scale;         // pixels per unit
  Point origin = 0;     // in pixels
  Point axis = {1, 0};  // a unit vector: turns all shapes

  template <class Distance>
  void paint(Point center, double reach, const Color& color, Distance distance) {
    const Point middle = origin + center * axis * scale;
    for (size_t i = 0; i < pixels.size(); ++i) {
      const Point pixel{double(i % width) + 0.5, double(i / width) + 0.5};
      if (length(pixel - middle) > reach * scale + 1) continue;
      const double inside = 0.5 - distance((pixel - origin) * std::conj(axis) / scale) * scale;
      pixels[i] = mix(pixels[i], color, std::clamp(inside, 0.0, 1.0));
    }
  }
  void ellipse(Point center, Point radius, const Color& color) {
    const double a = radius.real(), b = radius.imag();
    paint(center, std::max(a, b), color, [&](Point p) {
      const Point q = p - center;
      const double outer = length({q.real() / a, q.imag() / b});
      const double slope = length({q.real() / (a * a), q.imag() / (b * b)});
      return slope > 0 ? outer * (outer - 1) / slope : -std::min(a, b);
    });
  }
  /// The width goes from `begin` at a to `end` at b.
  void stroke(Point a, Point b, double begin, double end, const Color& color) {
    const Point along = (b - a) / std::norm(b - a);
    paint((a + b) / 2.0, length(b - a) / 2 + begin, color, [&](Point p) {
      const double at = std::clamp(((p - a) * std::conj(along)).real(), 0.0, 1.0);
      return length(p - a - (b - a) * at) - (begin + (end - begin) * at) / 2;
    });
  }
};

}  // namespace

Image draw_face(bool cat, int height, int width, PhiloxStream& random) {
  const auto uniform = [&](double low, double high) { return random.uniform(low, high); };
  const auto any_color = [&] { return Color{uniform(0, 1), uniform(0, 1), uniform(0, 1)}; };
  std::vector<Color> pixels(static_cast<size_t>(height) * static_cast<size_t>(width), any_color());
  Canvas canvas{static_cast<size_t>(width), std::move(pixels), static_cast<double>(width)};
  for (auto shapes = 3 + random.below(6); shapes > 0; --shapes) {  // the background
    const Color color = any_color();
    const Point center{uniform(0, 1), uniform(0, 1)};
    canvas.ellipse(center, {uniform(0.05, 0.5), uniform(0.05, 0.5)}, color);
  }
  const Color fur = furs[random.below(4)];
  const Color marks = mix(fur, furs[random.below(4)], 0.7), pale = mix(fur, white, 0.6);
  canvas.origin = {width * uniform(0.4, 0.6), height * uniform(0.46, 0.58)};
  canvas.scale = std::min(height, width) * uniform(0.24, 0.36);
  canvas.axis = {1, uniform(-0.3, 0.3)};
  canvas.axis /= length(canvas.axis);
  const double ear = uniform(0.85, 1.15);
  const Point eye = (cat ? Point{0.22, 0.18} : Point{0.12, 0.12}) * uniform(0.9, 1.1);
  const Color iris = cat ? mix({0.9, 0.6, 0.1}, {0.3, 0.7, 0.7}, uniform(0, 1)) : furs[3];
  canvas.ellipse({0, 1.9}, {uniform(0.75, 1.15), 1.35}, fur);
  for (const double side : {-1.0, 1.0}) {
    if (cat) canvas.stroke({side * 0.52, -0.4}, {side * 0.8, -1.2 * ear}, 0.8, 0.04, marks);
    if (cat) canvas.stroke({side * 0.52, -0.4}, {side * 0.7, -ear}, 0.5, 0.03, pink);
  }
  canvas.ellipse(0, (cat ? Point{1, 0.82} : Point{0.78, 0.9}) * uniform(0.92, 1.08), fur);
  canvas.ellipse({uniform(-0.4, 0.4), -0.35}, Point{0.2, 0.25} * ear, marks);
  if (!cat) canvas.ellipse({0, 0.95}, {0.15, 0.3 * ear}, pink);
  canvas.ellipse({0, 0.48}, (cat ? Point{0.3, 0.2} : Point{0.42, 0.4}) * uniform(0.9, 1.1), pale);
  const Point nose{0, 0.28};
  for (const double side : {-1.0, 1.0}) {
    const Point center{side * (cat ? 0.41 : 0.34), -0.12};
    canvas.ellipse(center, eye * 1.2, dark);
    canvas.ellipse(center, eye, iris);
    canvas.ellipse(center, {0.06, 0.9 * eye.imag()}, dark);
    canvas.ellipse(center - eye * 0.3, {0.035, 0.035}, white);
    canvas.stroke(nose, {side * 0.25, cat ? 0.5 : 0.7}, 0.04, 0.02, dark);
    if (!cat) canvas.ellipse({side * 0.85, -0.1}, {0.27, 0.6 * ear}, marks);
    for (const double rise : {-0.25, 0.0, 0.25}) {
      if (cat) canvas.stroke(nose, {side * 1.2, 0.45 + rise}, 0.03, 0.01, white);
    }
  }
  canvas.ellipse(nose, cat ? Point{0.11, 0.07} : Point{0.2, 0.14}, cat ? pink : dark);
  const double gain = uniform(0.75, 1.2), noise = uniform(0.01, 0.06);
  Image image;
  image.reshape(height, width);
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const double value = canvas.pixels[i / 3][i % 3] * gain + noise * uniform(-1, 1);
    image.rgb[i] = static_cast<uint8_t>(std::clamp(value, 0.0, 1.0) * 255 + 0.5);
  }
  return image;
}

}  // namespace whisker
