// Sums are kept as integers per image, so the result does not depend on the threads.
#include "data/tools/statistics.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace whisker {
namespace {

struct ImageSums {
  int height = 0;
  int width = 0;
  std::array<uint64_t, 3> sum{};
  std::array<uint64_t, 3> squares{};
};

ImageSums sums_of(const Image& image) {
  ImageSums sums{.height = image.height, .width = image.width};
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    for (size_t c = 0; c < 3; ++c) {
      const uint64_t value = image.rgb[i + c];
      sums.sum[c] += value;
      sums.squares[c] += value * value;
    }
  }
  return sums;
}

std::vector<SizeBin> size_bins(const std::vector<ImageSums>& images) {
  std::vector<SizeBin> bins;
  for (int bit = 0; bit <= 16; ++bit) bins.push_back({.from = 1 << bit, .to = 2 << bit});
  for (const ImageSums& one : images) {
    const auto side = static_cast<uint32_t>(std::min(one.height, one.width));
    ++bins[static_cast<size_t>(std::bit_width(side)) - 1].count;
  }
  const auto used = [](const SizeBin& bin) { return bin.count > 0; };
  bins.erase(std::find_if(bins.rbegin(), bins.rend(), used).base(), bins.end());
  bins.erase(bins.begin(), std::find_if(bins.begin(), bins.end(), used));
  return bins;
}

}  // namespace

FolderStatistics folder_statistics(const ImageFolder& folder, const ScanOptions& options) {
  std::vector<ImageSums> images(folder.files.size());
  std::vector<std::string> errors(folder.files.size());
  scan_images(folder, options, [&](const ScannedImage& scanned) {
    if (scanned.image != nullptr) {
      images[static_cast<size_t>(scanned.index)] = sums_of(*scanned.image);
    } else {
      errors[static_cast<size_t>(scanned.index)] = scanned.error;
    }
  });
  FolderStatistics result;
  for (size_t i = 0; i < images.size(); ++i) {
    if (images[i].height == 0) result.unreadable.push_back({folder.files[i].path, errors[i]});
  }
  std::erase_if(images, [](const ImageSums& one) { return one.height == 0; });

  for (const std::string& name : folder.classes) result.classes.push_back({.name = name});
  for (const ImageFile& file : folder.files) {
    auto& entry = result.classes[static_cast<size_t>(file.label)];
    ++entry.files;
    entry.bytes += file.bytes;
  }
  result.images = std::ssize(images);
  if (images.empty()) {
    fail(ErrorKind::data, "data stats: {} in {} can be read{}", none_of(folder.size(), "image"),
         printable(folder.root.string()),
         errors.empty()
             ? std::string()
             : fmt::format("; the first, {}: {}", printable(folder.files[0].path), errors[0]));
  }

  const auto by_height = [](const auto& a, const auto& b) { return a.height < b.height; };
  const auto by_width = [](const auto& a, const auto& b) { return a.width < b.width; };
  const auto heights = std::minmax_element(images.begin(), images.end(), by_height);
  const auto widths = std::minmax_element(images.begin(), images.end(), by_width);
  result.min_height = heights.first->height;
  result.max_height = heights.second->height;
  result.min_width = widths.first->width;
  result.max_width = widths.second->width;
  result.short_sides = size_bins(images);

  double pixels = 0;
  std::array<double, 3> sum{};
  std::array<double, 3> squares{};
  for (const ImageSums& one : images) {
    const auto count = static_cast<double>(images.size());
    result.mean_height += one.height / count;
    result.mean_width += one.width / count;
    pixels += static_cast<double>(one.height) * one.width;
    for (size_t c = 0; c < 3; ++c) {
      sum[c] += static_cast<double>(one.sum[c]) / 255;
      squares[c] += static_cast<double>(one.squares[c]) / (255.0 * 255.0);
    }
  }
  for (size_t c = 0; c < 3; ++c) {
    result.mean[c] = sum[c] / pixels;
    const double variance = squares[c] / pixels - result.mean[c] * result.mean[c];
    result.deviation[c] = std::sqrt(std::max(0.0, variance));
  }
  return result;
}

}  // namespace whisker
