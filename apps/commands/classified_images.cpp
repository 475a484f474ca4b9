#include "apps/commands/classified_images.h"

#include "apps/commands/number_columns.h"
#include "apps/terminal/terminal.h"
#include "core/io/checksum_mark.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "data/codec/encode_jpeg.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/csv.h"
#include "train/ranks/same_run.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr int most_jpeg_side = 65500;  // libjpeg's JPEG_MAX_DIMENSION
constexpr OutputFormat embeddings_format{.name = "a CSV of classify --embeddings",
                                         .is_own = is_embeddings_csv};

// `text` as part of a file's name, of at most `most` bytes.
std::string file_name_part(std::string_view text, size_t most) {
  std::string part;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_sequence_length(text), 1);
    if (part.size() + length > most) break;
    const auto first = static_cast<unsigned char>(text[0]);
    const bool kept = first >= 0x20 && first != 0x7f && first != '/';
    part += kept ? text.substr(0, length) : std::string_view("_");
    text.remove_prefix(length);
  }
  return part;
}

}  // namespace

std::string heat_map_weights(const std::string& weights) {
  return ", weights of " + content_of(weights);
}

std::string heat_map_jpeg(const Prediction& result, const std::string& weights) {
  const Image& image = result.heat_map;
  if (image.rgb.empty() || std::max(image.height, image.width) > most_jpeg_side) return {};
  const std::vector<uint8_t> bytes =
      encode_jpeg(image, {.comment = checksum_mark(heat_map_mark) + weights});
  std::string content(bytes.begin(), bytes.end());
  set_checksum(content, heat_map_mark);
  return content;
}

bool is_heat_map(std::string_view content) {
  return content.starts_with("\xff\xd8") && checksum_matches(content, heat_map_mark);
}

bool is_embeddings_csv(std::string_view content) {
  const std::vector<std::string> columns = number_columns(content, 1);
  for (size_t i = 1; i < columns.size(); ++i) {
    if (columns[i] != fmt::format("{}", i - 1)) return false;
  }
  return columns.size() > 1 && columns[0] == "path";
}

fs::path heat_map_name(const fs::path& image, std::span<const std::string> folders,
                       std::string_view class_name, float probability) {
  fs::path below;
  for (const std::string& folder : folders) {
    const fs::path relative = image.lexically_relative(folder);
    const bool inside = !relative.empty() && *relative.begin() != ".." && relative != ".";
    if (inside && (below.empty() || relative.native().size() < below.native().size())) {
      below = relative;
    }
  }
  if (below.empty()) below = image;
  fs::path name;
  for (const fs::path& part : below.parent_path()) {
    if (part != "/" && part != "." && part != "..") name /= part;
  }
  constexpr size_t most_stem = 150, most_class = 80;  // of the 255 bytes of a name
  return name / fmt::format("{}_{}_{:.4f}", file_name_part(image.stem().string(), most_stem),
                            file_name_part(class_name, most_class), probability);
}

ClassifiedImages::ClassifiedImages(Outputs& outputs, const std::string& heat_maps,
                                   const std::string& embeddings, const std::string& folder,
                                   std::string weights)
    : outputs_(outputs), heat_maps_(heat_maps), weights_(std::move(weights)), folders_{folder} {
  if (!embeddings.empty()) {
    embeddings_ = outputs_.open("--embeddings", embeddings, embeddings_format);
  }
  if (!heat_maps_.empty()) outputs_.open_folder("--cam", heat_maps_);
}

void ClassifiedImages::add_inputs(std::span<const std::string> images,
                                  std::span<const std::string> folders) {
  if (heat_maps_.empty() && !embeddings_) return;
  for (const std::string& folder : folders.subspan(folders_.size() - 1)) {
    outputs_.add_data(folder);
    folders_.push_back(folder);
  }
  for (const std::string& image : images) outputs_.add_data(image);
}

void ClassifiedImages::add(const Prediction& result, const std::string& jpeg,
                           std::span<const std::string> classes) {
  if (!result.error.empty() || failed_) return;
  try {
    if (embeddings_) write_embedding(result);
    if (heat_maps_.empty()) return;
    if (jpeg.empty()) {
      return tell(fmt::format("{}: skipped by --cam: a JPEG file has at most {} pixels a side\n",
                              printable(result.name), most_jpeg_side));
    }
    const auto most = std::ranges::max_element(result.probabilities);
    const auto predicted = static_cast<size_t>(most - result.probabilities.begin());
    const fs::path stem = heat_map_name(result.name, folders_, classes[predicted], *most);
    fs::path name = stem;
    for (int number = 2; !names_.insert(name).second; ++number) {
      name = fmt::format("{}-{}", stem.string(), number);
    }
    outputs_.write("--cam", heat_maps_, name += ".jpg", jpeg,
                   {.name = "a heat map of classify --cam with these weights",
                    .is_own = is_heat_map,
                    .holds = weights_});
  } catch (const Error&) {
    failed_ = std::current_exception();
  }
}

void ClassifiedImages::finish() {
  if (failed_) std::rethrow_exception(failed_);
  if (embeddings_ && has_header_) {
    outputs_.commit(*embeddings_, "--embeddings", embeddings_format);
  } else if (embeddings_) {
    tell("classify --embeddings: no image could be read: nothing is written\n");
  }
}

// A line of the CSV file, after its header: the path, then the values.
void ClassifiedImages::write_embedding(const Prediction& result) {
  std::string text;
  if (!std::exchange(has_header_, true)) {
    text = "path";
    for (size_t i = 0; i < result.embedding.size(); ++i) text += fmt::format(",{}", i);
    text += "\n";
  }
  text += csv_field(result.name);
  for (const float value : result.embedding) text += fmt::format(",{}", value);
  embeddings_->write(text + "\n");
}

}  // namespace whisker
