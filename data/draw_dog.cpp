// Heads of dogs: hanging ears, round dark eyes, a snout with a big nose, often a tongue.
#include "data/draw_scene.h"

#include <array>

namespace whisker {
namespace {

void dog_ears(Scene& scene, Vec2 head) {
  const Vec2 size{scene.uniform(0.22, 0.32), scene.uniform(0.46, 0.72)};
  const double lean = scene.uniform(0.05, 0.45);
  const Color ear = scene.look.coat == Coat::plain ? mix(scene.look.fur, scene.look.second, 0.35)
                                                   : scene.look.second;
  for (const double side : {-1.0, 1.0}) {
    const Vec2 root{side * head.x * 0.82, -head.y * 0.62};
    const Vec2 center = root + Vec2{side * (0.1 + lean * 0.5), size.y * 0.82};
    scene.canvas.fill({.center = center, .radius = size, .angle = -side * lean}, scene.fur(ear));
    scene.canvas.fill({.center = root + Vec2{side * 0.04, 0.08}, .radius = {0.24, 0.2}},
                      scene.fur(ear));
    scene.canvas.stroke({root + Vec2{-side * 0.16, 0}, center + Vec2{-side * size.x, -0.1},
                         center + Vec2{-side * size.x * 0.5, size.y * 0.8}},
                        {0.02, 0.03}, scene.plain(scene.look.dark, 0.45));
  }
}

void dog_tongue(Scene& scene) {
  const Vec2 size{scene.uniform(0.13, 0.19), scene.uniform(0.24, 0.36)};
  const Vec2 center = scene.at(scene.uniform(-0.06, 0.06), 0.72 + size.y * 0.75, 0.5);
  const Color color{0.88, 0.42, 0.45};
  scene.canvas.fill({.center = center, .radius = size}, scene.plain(color));
  scene.canvas.stroke({center - Vec2{0, size.y * 0.8}, center, center + Vec2{0, size.y * 0.5}},
                      {0.03, 0.02}, scene.plain(mix(color, scene.look.dark, 0.4), 0.8));
}

void dog_eyes(Scene& scene) {
  constexpr std::array<Color, 3> irises = {
      Color{0.28, 0.16, 0.08}, {0.45, 0.27, 0.12}, {0.16, 0.10, 0.07}};
  const Color iris = scene.pick(irises);
  const double size = scene.uniform(0.10, 0.145);
  const bool brows = scene.chance(0.35);
  for (const double side : {-1.0, 1.0}) {
    const Vec2 eye = scene.at(side * 0.34, -0.16);
    if (brows) {
      scene.canvas.fill({.center = eye + Vec2{side * 0.03, -0.22}, .radius = {0.13, 0.08}},
                        scene.fur(mix(scene.look.light, scene.look.fur, 0.3)));
    }
    scene.canvas.fill({.center = eye, .radius = {size * 1.3, size * 1.15}},
                      scene.plain(scene.look.dark));
    scene.canvas.fill({.center = eye, .radius = {size * 1.1, size}},
                      scene.plain({0.9, 0.88, 0.84}));
    scene.canvas.fill({.center = eye, .radius = {size * 0.92, size * 0.98}}, scene.plain(iris));
    scene.canvas.fill({.center = eye, .radius = {size * 0.5, size * 0.5}},
                      scene.plain(scene.look.dark));
    scene.canvas.fill({.center = eye + Vec2{-0.04, -0.05}, .radius = {0.035, 0.035}},
                      scene.plain({1, 1, 1}, 0.95));
  }
}

}  // namespace

void draw_dog_head(Scene& scene) {
  const Vec2 head{scene.uniform(0.70, 0.86), scene.uniform(0.82, 0.98)};
  const bool ears_behind = scene.chance(0.4);
  if (ears_behind) dog_ears(scene, head);
  scene.canvas.fill({.center = {0, -0.08}, .radius = head}, scene.fur(scene.look.fur));
  scene.canvas.fill({.center = scene.at(0, 0.35, 0.15), .radius = {head.x * 0.88, 0.6}},
                    scene.fur(scene.look.fur));
  scene.draw_coat(head);
  if (!ears_behind) dog_ears(scene, head);
  const Color snout = scene.look.coat == Coat::masked ? scene.look.second : scene.look.light;
  const double length = scene.uniform(0.34, 0.46);
  const bool tongue = scene.chance(0.65);
  if (tongue) dog_tongue(scene);
  scene.canvas.fill(
      {.center = scene.at(0, 0.46, 0.5), .radius = {scene.uniform(0.36, 0.48), length}},
      scene.fur(snout));
  for (const double side : {-1.0, 1.0}) {
    scene.canvas.fill({.center = scene.at(side * 0.17, 0.62, 0.5), .radius = {0.26, 0.2}},
                      scene.fur(snout));
  }
  dog_eyes(scene);
  const Vec2 nose = scene.at(0, 0.26, 0.65);
  const double size = scene.uniform(0.9, 1.2);
  scene.canvas.fill({.center = nose, .radius = {0.2 * size, 0.14 * size}},
                    scene.plain(scene.look.dark));
  scene.canvas.fill({.center = nose + Vec2{-0.05, -0.05}, .radius = {0.06, 0.03}},
                    scene.plain({1, 1, 1}, 0.55));
  const Paint line = scene.plain(scene.look.dark, 0.9);
  scene.canvas.stroke({nose, scene.at(0, 0.5, 0.6), scene.at(0, 0.66, 0.58)}, {0.04, 0.04}, line);
  for (const double side : {-1.0, 1.0}) {
    scene.canvas.stroke({scene.at(0, 0.66, 0.58), scene.at(side * 0.2, 0.86, 0.5),
                         scene.at(side * 0.42, 0.62, 0.42)},
                        {0.045, 0.03}, line);
  }
}

}  // namespace whisker
