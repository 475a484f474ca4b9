// Training batches from folders of images of all kinds, by whatever decodes their JPEG files:
// what the tests of that compare.
#pragma once

#include "core/image/jpeg_decoder.h"
#include "data/images/image_dataset.h"
#include "data/images/image_folder.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"

#include <memory>
#include <string>
#include <vector>

namespace whisker::test {

/// Every orientation, and one of each kind that a device does not decode or nobody can.
void write_images(const TemporaryFolder& folder);
/// The collection of odd images in two class folders; false where it is not there.
bool copy_odd_images(const TemporaryFolder& folder);

/// Random crops and more, to 24x32.
ImageDatasetOptions augmented();

/// What a loader gave.
struct Delivered {
  std::vector<std::vector<double>> images;
  std::vector<std::vector<int64_t>> indices;
  std::vector<int64_t> bad;
  std::vector<std::string> reasons;
  std::string note;
};

/// By whom.
struct How {
  Device device = cpu_device;
  std::shared_ptr<JpegDecoder> decoder = {};
  double share = 0;
  int workers = 0;
  int64_t batch = 8;
};

Delivered run(const ImageFolder& files, const ImageDatasetOptions& data, const How& how,
              int epochs = 2);

/// Of any two values, in levels / 255.
double largest_difference(const Delivered& a, const Delivered& b);
/// Over the first batches, as many as `expected` has.
double mean_difference(const Delivered& got, const Delivered& expected);

}  // namespace whisker::test
