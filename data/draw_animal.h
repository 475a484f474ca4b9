// Drawn faces of cats and dogs, varied in shape, color, coat, pose, background and noise: pictures
// for a machine that has none. Both kinds share coats, backgrounds and poses, so that only the
// animal itself tells them apart.
#pragma once

#include "core/philox.h"
#include "data/picture.h"

namespace whisker {

enum class Animal { cat, dog };

/// One face; everything about it but the size is drawn from `random`.
Picture draw_animal(Animal animal, int height, int width, PhiloxStream& random);

}  // namespace whisker
