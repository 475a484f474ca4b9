// A face from background to noise.
#include "data/draw_animal.h"

#include "data/draw_scene.h"

namespace whisker {

Picture draw_animal(Animal animal, int height, int width, PhiloxStream& random) {
  Scene scene(height, width, random);
  scene.draw_background();
  scene.choose_look();
  scene.choose_placement();
  scene.draw_body();
  if (animal == Animal::cat) {
    draw_cat_head(scene);
  } else {
    draw_dog_head(scene);
  }
  scene.finish();
  return scene.canvas.picture();
}

}  // namespace whisker
