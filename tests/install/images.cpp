// Links everything that decodes images: a BMP of one red pixel.
#include "data/codec/decode.h"

#include <cstdio>
#include <vector>

int main() {
  std::vector<uint8_t> file = {'B', 'M', 58, 0, 0, 0, 0, 0, 0, 0,  54, 0, 0, 0, 40, 0, 0, 0, 1,
                               0,   0,   0,  1, 0, 0, 0, 1, 0, 24, 0,  0, 0, 0, 0,  4, 0, 0, 0};
  file.resize(54);
  file.insert(file.end(), {0, 0, 255, 0});
  const whisker::Image image = whisker::decode(file);
  std::printf("%dx%d, red %d\n", image.width, image.height, image.rgb[0]);
  return image.rgb[0] == 255 ? 0 : 1;
}
