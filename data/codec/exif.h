// EXIF orientation: reading it out of untrusted bytes, and turning images and rectangles upright.
// "Stored" means as in the file, "upright" as a person should see it (CIPA DC-008, tag 0x0112).
#pragma once

#include "data/codec/image.h"

#include <cstdint>
#include <span>

namespace whisker {

/// The orientation 1-8 in a TIFF block (what follows "Exif\0\0" in a JPEG's APP1, or a PNG's eXIf).
/// 1 when there is none or anything about the block is malformed; reads nothing outside `tiff`.
int exif_orientation(std::span<const uint8_t> tiff);

/// True for orientations 5-8, where rows become columns.
inline bool swaps_sides(int orientation) {
  return orientation >= 5;
}

/// The stored rectangle that holds upright rectangle `upright` of an image whose stored extents
/// are `stored_width` x `stored_height`.
Rect stored_rect(Rect upright, int orientation, int stored_width, int stored_height);

/// Where stored pixel edge (x, y) lies in the upright image, for the same stored extents.
struct Point {
  double x = 0;
  double y = 0;
};
Point upright_point(Point stored, int orientation, double stored_width, double stored_height);

/// Turns `image` from stored to upright, using `scratch` as the other buffer.
void make_upright(Image& image, int orientation, Image& scratch);

}  // namespace whisker
