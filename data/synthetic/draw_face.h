// Draws faces of cats and dogs, varied in shape, colour, coat, pose, background, light and noise.
// Only the face differs between the classes, not the colours or the background.
#pragma once

#include "core/tensor/philox.h"
#include "data/codec/image.h"

namespace whisker {

enum class Animal { cat, dog };

/// One face; everything about it but its size comes from `random`.
Image draw_face(Animal animal, int height, int width, PhiloxStream& random);

}  // namespace whisker
