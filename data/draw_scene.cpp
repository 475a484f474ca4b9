// Backgrounds, coats and the photographer's faults.
#include "data/draw_scene.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace whisker {

Color Scene::any_color(double low, double high) {
  return {uniform(low, high), uniform(low, high), uniform(low, high)};
}

void Scene::draw_background() {
  const Color top = any_color(0.15, 0.95);
  const Color other_end = any_color(0.1, 0.9);
  const Color bottom = mix(top, other_end, uniform(0.2, 0.9));
  for (int y = 0; y < canvas.height(); ++y) {
    const Color color = mix(top, bottom, static_cast<double>(y) / canvas.height());
    for (int x = 0; x < canvas.width(); ++x) {
      std::copy(color.begin(), color.end(), canvas.pixel(x, y));
    }
  }
  canvas.place({.origin = {0, 0}, .scale = static_cast<double>(canvas.width())});
  const auto shapes = static_cast<int>(uniform(2, 9));
  for (int i = 0; i < shapes; ++i) {
    const Vec2 center{uniform(0, 1), uniform(0, 1)};
    const Paint paint{.color = any_color(0.1, 0.95), .opacity = uniform(0.3, 0.9)};
    if (chance(0.4)) {
      canvas.fill({.center = center,
                   .radius = {uniform(0.04, 0.3), uniform(0.04, 0.3)},
                   .angle = uniform(0, std::numbers::pi)},
                  paint);
    } else if (chance(0.5)) {
      const Vec2 other = center + Vec2{uniform(-0.4, 0.4), uniform(-0.4, 0.4)};
      const Vec2 third = center + Vec2{uniform(-0.4, 0.4), uniform(-0.4, 0.4)};
      canvas.fill_polygon(std::array{center, other, third}, 0.01, paint);
    } else {
      const Vec2 end{uniform(0, 1), uniform(0, 1)};
      const double width = uniform(0.01, 0.06);
      canvas.stroke({center, {uniform(0, 1), uniform(0, 1)}, end}, {width, width}, paint);
    }
  }
  canvas.blur(uniform(0, 3));
}

void Scene::choose_look() {
  constexpr std::array<Color, 8> furs = {
      Color{0.13, 0.12, 0.12}, {0.42, 0.42, 0.45}, {0.80, 0.50, 0.22}, {0.90, 0.87, 0.82},
      {0.45, 0.29, 0.17},      {0.68, 0.56, 0.42}, {0.86, 0.70, 0.48}, {0.30, 0.24, 0.21}};
  // One draw per statement: the order of a call's arguments is not fixed.
  const Color base = pick(furs);
  look.fur = mix(base, any_color(0, 1), 0.08);
  const Color marks = pick(furs);
  const double contrast = uniform(0.35, 0.8);
  const Color black{0.08, 0.06, 0.05};
  look.second = mix(look.fur, fur_brightness() > 0.35 ? black : marks, contrast);
  look.light = mix(look.fur, {0.97, 0.95, 0.92}, uniform(0.35, 0.9));
  look.dark = {0.08, 0.06, 0.06};
  look.pink = mix({0.86, 0.53, 0.53}, look.dark, uniform(0, 0.35));
  look.coat = static_cast<Coat>(random_.below(5));
  look.turned = uniform(-0.5, 0.5);
  const double from = uniform(0, 2 * std::numbers::pi);
  look.light_from = Vec2{std::cos(from), std::sin(from)} * uniform(0.05, 0.22);
}

void Scene::choose_placement() {
  const double side = std::min(canvas.height(), canvas.width());
  const double scale = side * uniform(0.25, 0.36);
  const Vec2 origin{canvas.width() * uniform(0.40, 0.60), canvas.height() * uniform(0.46, 0.58)};
  canvas.place(
      {.origin = origin, .scale = scale, .angle = uniform(-0.35, 0.35), .mirror = chance(0.5)});
}

void Scene::draw_body() {
  const double width = uniform(0.75, 1.15);
  canvas.fill({.center = {uniform(-0.15, 0.15), 1.9}, .radius = {width, 1.35}}, fur(look.fur));
  if (look.coat == Coat::bicolor || chance(0.3)) {
    canvas.fill({.center = {0, 1.75}, .radius = {width * 0.5, 0.9}}, fur(look.light));
  }
  if (!chance(0.25)) return;
  const Color collar = any_color(0.1, 0.9);
  const double end = 0.6 * width;  // on the body's outline
  canvas.stroke({Vec2{-end, 0.86}, {0, 1.3}, {end, 0.86}}, {0.14, 0.14}, plain(collar));
}

void Scene::draw_coat(Vec2 head) {
  switch (look.coat) {
    case Coat::plain:
      break;
    case Coat::tabby:
      for (int i = -2; i <= 2; ++i) {
        canvas.stroke({Vec2{i * 0.17, -head.y * 0.92}, {i * 0.15, -0.5}, {i * 0.13, -0.34}},
                      {0.09, 0.02}, plain(look.second, 0.8));
      }
      for (const double side : {-1.0, 1.0}) {
        for (int i = 0; i < 2; ++i) {
          const double y = 0.12 + 0.2 * i;
          canvas.stroke(
              {Vec2{side * head.x * 0.97, y - 0.05}, {side * 0.75, y}, {side * 0.55, y + 0.1}},
              {0.09, 0.02}, plain(look.second, 0.7));
        }
      }
      break;
    case Coat::bicolor:
      canvas.fill({.center = at(0, 0.45), .radius = {head.x * 0.55, 0.42}}, fur(look.light));
      canvas.fill({.center = at(0, -0.25), .radius = {0.13, 0.6}}, fur(look.light));
      break;
    case Coat::masked:
      canvas.fill({.center = at(0, 0.15), .radius = {0.62, 0.58}},
                  {.color = look.second, .opacity = 0.85});
      break;
    case Coat::patched:
      canvas.fill({.center = at(uniform(-0.45, 0.45), -0.18),
                   .radius = {uniform(0.25, 0.4), uniform(0.25, 0.4)},
                   .angle = uniform(0, std::numbers::pi)},
                  fur(look.second));
      break;
  }
}

void Scene::finish() {
  const double gain = uniform(0.75, 1.2);
  const double lift = uniform(-0.06, 0.08);
  canvas.blur(uniform(0, 0.8));
  const double noise = uniform(0.005, 0.05);
  for (int y = 0; y < canvas.height(); ++y) {
    for (int x = 0; x < canvas.width(); ++x) {
      // One word per pixel: three bytes of color noise, one that all three share.
      const uint32_t word = random_.next();
      const auto level = [&](int byte) { return ((word >> (8 * byte)) & 255) / 127.5 - 1; };
      for (int c = 0; c < 3; ++c) {
        float& value = canvas.pixel(x, y)[c];
        value = static_cast<float>(value * gain + lift + noise * (level(3) + 0.5 * level(c)));
      }
    }
  }
}

}  // namespace whisker
