#include "apps/commands/classified_images.h"

#include "core/io/atomic_file.h"
#include "data/codec/encode_jpeg.h"
#include "data/files/csv.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace whisker {
namespace {

// A line of the CSV file, after its header: the path, then the values.
void add_embedding(const Prediction& result, std::string& csv) {
  if (csv.empty()) {
    csv = "path";
    for (size_t i = 0; i < result.embedding.size(); ++i) csv += fmt::format(",{}", i);
    csv += "\n";
  }
  csv += csv_field(result.name);
  for (const float value : result.embedding) csv += fmt::format(",{}", value);
  csv += "\n";
}

}  // namespace

std::string heat_map_jpeg(const Prediction& result) {
  if (result.heat_map.rgb.empty()) return {};
  const std::vector<uint8_t> bytes = encode_jpeg(result.heat_map, {});
  return {bytes.begin(), bytes.end()};
}

ClassifiedImages::ClassifiedImages(std::string heat_maps, std::string embeddings)
    : heat_maps_(std::move(heat_maps)), embeddings_(std::move(embeddings)) {
  if (!heat_maps_.empty()) std::filesystem::create_directories(heat_maps_);
}

void ClassifiedImages::add(const Prediction& result, const std::string& jpeg) {
  if (!result.error.empty()) return;
  if (!heat_maps_.empty()) write_heat_map(result.name, jpeg);
  if (!embeddings_.empty()) add_embedding(result, csv_);
}

void ClassifiedImages::finish() const {
  if (!embeddings_.empty()) write_file_atomically(embeddings_, csv_);
}

void ClassifiedImages::write_heat_map(const std::filesystem::path& image, const std::string& jpeg) {
  const std::string stem = image.stem().string();
  std::string name = stem;
  for (int number = 2; !names_.insert(name).second; ++number) {
    name = fmt::format("{}-{}", stem, number);
  }
  write_file_atomically(std::filesystem::path(heat_maps_) / (name + ".jpg"), jpeg);
}

}  // namespace whisker
