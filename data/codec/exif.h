// EXIF orientation: reading it out of untrusted bytes, and turning images and rectangles upright.
// "Stored" means as in the file, "upright" as a person should see it (CIPA DC-008, tag 0x0112).
#pragma once

#include "data/codec/image.h"

#include <cstdint>
#include <span>

namespace whisker {

/// Where a file may say its orientation; empty: it does not.
struct OrientationTags {
  std::span<const uint8_t> exif = {};  ///< a TIFF block, also after one or two prefixes "Exif\0\0"
  std::span<const uint8_t> xmp = {};   ///< an XMP packet: counts where EXIF has no orientation
};

/// The orientation 1-8 as Pillow's exif_transpose finds it (`rules` 1: only a SHORT without a
/// prefix, see Note [Data rules]). 1 when there is none or anything about it is malformed; reads
/// nothing outside `tags`.
int exif_orientation(const OrientationTags& tags, int rules);

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
