// Heads of cats: pointed ears, almond eyes with upright pupils, a small nose, whiskers.
#include "data/draw_scene.h"

#include <array>

namespace whisker {
namespace {

void cat_ears(Scene& scene, Vec2 head) {
  const double height = scene.uniform(0.48, 0.68);
  const double spread = scene.uniform(0.6, 0.75);
  const Color ear = scene.look.coat == Coat::masked ? scene.look.second : scene.look.fur;
  for (const double side : {-1.0, 1.0}) {
    const Vec2 tip{side * (spread + scene.uniform(0.05, 0.2)), -head.y * 0.72 - height};
    const std::array outer{Vec2{side * head.x * 0.93, -0.22}, tip,
                           Vec2{side * 0.16, -head.y * 0.86}};
    scene.canvas.fill_polygon(outer, 0.05, scene.fur(ear));
    const Vec2 middle = (outer[0] + outer[1] + outer[2]) * (1.0 / 3);
    std::array<Vec2, 3> inner;
    for (size_t i = 0; i < 3; ++i) inner[i] = middle + (outer[i] - middle) * 0.58;
    scene.canvas.fill_polygon(inner, 0.02, scene.plain(mix(scene.look.pink, ear, 0.25)));
  }
}

void cat_eyes(Scene& scene) {
  constexpr std::array<Color, 5> irises = {Color{0.55, 0.72, 0.25},
                                           {0.86, 0.72, 0.20},
                                           {0.85, 0.50, 0.15},
                                           {0.35, 0.62, 0.85},
                                           {0.35, 0.65, 0.45}};
  const Color iris = scene.pick(irises);
  const Vec2 size{scene.uniform(0.19, 0.25), scene.uniform(0.15, 0.21)};
  const double pupil = scene.uniform(0.18, 0.5);
  const double slant = scene.uniform(0.1, 0.35);
  for (const double side : {-1.0, 1.0}) {
    const Vec2 eye = scene.at(side * 0.41, -0.10);
    scene.canvas.fill({.center = eye, .radius = size * 1.18, .angle = -side * slant},
                      scene.plain(scene.look.dark));
    scene.canvas.fill({.center = eye, .radius = size, .angle = -side * slant},
                      {.color = iris, .shade = {0, -0.3}});
    scene.canvas.fill({.center = eye, .radius = {size.x * pupil, size.y * 0.95}},
                      scene.plain(scene.look.dark));
    scene.canvas.fill({.center = eye + Vec2{-0.06, -0.07}, .radius = {0.04, 0.04}},
                      scene.plain({1, 1, 1}, 0.9));
  }
}

void whiskers(Scene& scene) {
  const Color color =
      scene.fur_brightness() > 0.7 ? Color{0.25, 0.22, 0.2} : Color{0.97, 0.97, 0.95};
  const double reach = scene.uniform(1.05, 1.4);
  const double droop = scene.uniform(-0.1, 0.2);
  for (const double side : {-1.0, 1.0}) {
    for (int i = 0; i < 3; ++i) {
      const double y = 0.36 + 0.07 * i;
      const Vec2 end{side * reach * scene.uniform(0.9, 1.05) + scene.look.turned * 0.2,
                     y + (i - 1) * 0.2 + droop};
      scene.canvas.stroke({scene.at(side * 0.26, y, 0.35),
                           scene.at(side * 0.7, y + (i - 1) * 0.06 - 0.04, 0.3), end},
                          {0.03, 0.012}, scene.plain(color, 0.9));
    }
  }
}

}  // namespace

void draw_cat_head(Scene& scene) {
  const Vec2 head{scene.uniform(0.92, 1.05), scene.uniform(0.76, 0.88)};
  const bool long_hair = scene.chance(0.3);
  cat_ears(scene, head);
  if (long_hair) {
    for (const double side : {-1.0, 1.0}) {
      for (int i = 0; i < 3; ++i) {
        const double y = 0.15 + 0.2 * i;
        const std::array tuft{Vec2{side * 0.6, y - 0.12}, Vec2{side * (1.28 - 0.1 * i), y + 0.16},
                              Vec2{side * 0.6, y + 0.2}};
        scene.canvas.fill_polygon(tuft, 0.03, scene.fur(scene.look.fur));
      }
    }
  }
  scene.canvas.fill({.center = {0, 0}, .radius = head}, scene.fur(scene.look.fur));
  scene.draw_coat(head);
  const double muzzle = scene.uniform(0.85, 1.15);
  const Paint light = scene.fur(scene.look.light);
  scene.canvas.fill({.center = scene.at(0, 0.56, 0.3), .radius = {0.2, 0.13}}, light);
  for (const double side : {-1.0, 1.0}) {
    scene.canvas.fill({.center = scene.at(side * 0.16, 0.4, 0.35), .radius = {0.22 * muzzle, 0.17}},
                      light);
  }
  cat_eyes(scene);
  const std::array nose{scene.at(-0.10, 0.22, 0.45), scene.at(0.10, 0.22, 0.45),
                        scene.at(0, 0.31, 0.45)};
  scene.canvas.fill_polygon(nose, 0.025, scene.plain(scene.look.pink));
  const Paint line = scene.plain(scene.look.dark, 0.85);
  scene.canvas.stroke({scene.at(0, 0.32, 0.42), scene.at(0, 0.36, 0.42), scene.at(0, 0.42, 0.42)},
                      {0.03, 0.03}, line);
  for (const double side : {-1.0, 1.0}) {
    scene.canvas.stroke({scene.at(0, 0.42, 0.42), scene.at(side * 0.10, 0.52, 0.4),
                         scene.at(side * 0.2, 0.44, 0.38)},
                        {0.035, 0.02}, line);
  }
  whiskers(scene);
}

}  // namespace whisker
