// What every drawn animal shares: canvas, coat, background, body, and the marks on its face.
// Drawing units: the head's center is the origin, its radius about 1, y points down.
#pragma once

#include "core/philox.h"
#include "data/canvas.h"

namespace whisker {

enum class Coat { plain, tabby, bicolor, masked, patched };

/// What both kinds of animal draw alike.
struct Look {
  Color fur{};
  Color second{};  // markings
  Color light{};   // muzzle, chest
  Color dark{};    // lines
  Color pink{};
  Coat coat = Coat::plain;
  double turned = 0;  // of the head: shifts what lies in front of it sideways
  Vec2 light_from{};  // change of brightness per unit
};

/// A picture being drawn. Colors, poses and sizes come from the random numbers, in drawing order.
class Scene {
 public:
  Scene(int height, int width, PhiloxStream& random) : canvas(height, width), random_(random) {}

  /// Blurred shapes behind the animal; then the placement and look of the animal are chosen.
  void draw_background();
  void choose_look();
  void choose_placement();
  /// Chest, and a collar now and then.
  void draw_body();
  /// The coat's marks on a head of this radius.
  void draw_coat(Vec2 head);
  /// Exposure, blur and noise over everything.
  void finish();

  double uniform(double low, double high) { return random_.uniform(low, high); }
  bool chance(double probability) { return random_.uniform() < probability; }
  /// One of `choices`.
  template <class Choices>
  const auto& pick(const Choices& choices) {
    return choices[random_.below(static_cast<uint32_t>(choices.size()))];
  }
  Color any_color(double low, double high);
  /// Fur is shaded by the light, the rest is not.
  Paint fur(const Color& color) const { return {.color = color, .shade = look.light_from}; }
  static Paint plain(const Color& color, double opacity = 1) {
    return {.color = color, .opacity = opacity};
  }
  /// A point of the face at depth z: 0 the middle of the head, 0.5 the tip of the nose.
  Vec2 at(double x, double y, double z = 0.2) const { return {x + look.turned * z, y}; }
  /// How light the fur is, 0 to 1.
  double fur_brightness() const { return (look.fur[0] + look.fur[1] + look.fur[2]) / 3; }

  Canvas canvas;
  Look look;

 private:
  PhiloxStream& random_;
};

void draw_cat_head(Scene& scene);
void draw_dog_head(Scene& scene);

}  // namespace whisker
