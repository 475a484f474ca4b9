#include "train/model/hub_images.h"

#include "core/io/text.h"
#include "data/files/decode_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr int64_t most_side = 65535;

void set_square(Preprocess& images, int64_t side) {
  images.size = {static_cast<int>(side), static_cast<int>(side)};
}
void set_crop(Preprocess& images, int64_t side) {
  images.crop = {static_cast<int>(side), static_cast<int>(side)};
}

// Squashed to `whole`, of which `side` is cut out.
void squash_to(Preprocess& images, int64_t whole, int64_t side) {
  set_square(images, whole);
  images.resize_mode = whole > side ? ResizeMode::squash_crop : ResizeMode::squash;
  if (whole > side) set_crop(images, side);
}

void shorten_to(Preprocess& images, int64_t short_side, int64_t side) {
  images.resize_short = static_cast<int>(short_side);
  set_crop(images, side);
}

void set_normalisation(Preprocess& images, const std::vector<double>& mean,
                       const std::vector<double>& std) {
  std::ranges::copy(mean, images.normalisation.mean.begin());
  std::ranges::copy(std, images.normalisation.std.begin());
}

void check_images(const Preprocess& images, const HubJson& file) {
  try {
    images.check();
  } catch (const Error& error) {
    fail(ErrorKind::checkpoint, "{}: {}", file.name(), error.what());
  }
}

}  // namespace

Preprocess timm_images(HubJson& config) {
  Preprocess images{.rules = {.version = newest_data_rules}};
  const std::vector<int64_t> size = config.integers("input_size", {3, 224, 224});
  config.require("input_size", size.size() == 3 && size[0] == 3 && size[1] == size[2],
                 "three channels, and equal height and width");
  const int64_t side = size[1];
  const double part = config.number("crop_pct", 0.01, 1, 0.875);
  const auto whole = static_cast<int64_t>(std::floor(static_cast<double>(side) / part));
  const std::string mode = config.text("crop_mode", "center");
  config.require("crop_mode", mode == "center" || mode == "squash", "center or squash");
  if (mode == "squash") {
    squash_to(images, whole, side);
  } else {
    shorten_to(images, whole, side);
  }
  const std::string filter = config.text("interpolation", "bicubic");
  config.require("interpolation", filter == "bicubic" || filter == "bilinear",
                 "bicubic or bilinear");
  images.interpolation = filter == "bicubic" ? Interpolation::bicubic : Interpolation::bilinear;
  const std::vector<double> mean = config.channels("mean", {0.485, 0.456, 0.406});
  set_normalisation(images, mean, config.channels("std", {0.229, 0.224, 0.225}));
  check_images(images, config);
  return images;
}

namespace {

// The image processors that are known. Others than these resize and cut as `clip` does.
enum class Processor : uint8_t { vit, deit, convnext, clip };

Processor processor_of(const HubJson& file, std::string_view model_type) {
  constexpr std::array<std::pair<std::string_view, Processor>, 5> known = {
      {{"ViT", Processor::vit},
       {"DeiT", Processor::deit},
       {"ConvNext", Processor::convnext},
       {"CLIP", Processor::clip},
       {"Bit", Processor::clip}}};
  for (const char* const key : {"image_processor_type", "feature_extractor_type"}) {
    const JsonValue* const found = file.find(key);
    if (!found) continue;
    const std::string_view name = found->as_string();
    const size_t end = std::min(name.find("ImageProcessor"), name.find("FeatureExtractor"));
    for (const auto& [begin, processor] : known) {
      if (name.substr(0, end) == begin) return processor;
    }
    file.refuse(key,
                "ViTImageProcessor, DeiTImageProcessor, ConvNextImageProcessor, "
                "CLIPImageProcessor or BitImageProcessor",
                shown(*found));
  }
  if (model_type == "vit") return Processor::vit;
  return model_type == "deit" ? Processor::deit : Processor::convnext;
}

// 224, {"height": 224, "width": 224} or {"shortest_edge": 224}.
struct Side {
  int64_t extent = 0;
  bool square = false;  // else of the shorter side
};
Side side_in(HubJson& file, const char* key, const Side& otherwise, bool number_is_square) {
  const JsonValue* const found = file.find(key);
  if (!found) {
    file.assume(key, fmt::to_string(otherwise.extent));
    return otherwise;
  }
  if (found->is_number()) return {found->as_int(1, most_side), number_is_square};
  if (found->is_array()) {
    const std::vector<int64_t> sides = file.integers(key, {});
    file.require(key, sides.size() == 2 && sides[0] == sides[1], "equal height and width");
    return {sides[0], true};
  }
  const JsonValue *const height = found->find("height"), *const width = found->find("width");
  if (height && width && !height->is_null() && !width->is_null()) {
    const int64_t side = height->as_int(1, most_side);
    file.require(key, side == width->as_int(1, most_side), "equal height and width");
    return {side, true};
  }
  const JsonValue* const shortest = found->find("shortest_edge");
  const JsonValue* const longest = found->find("longest_edge");
  file.require(key, shortest && (!longest || longest->is_null()),
               "height and width, or shortest_edge");
  return {shortest->as_int(1, most_side), false};
}

// Sizes as ConvNextImageProcessor has them: smaller images are cut out, larger ones squashed.
void set_convnext_size(Preprocess& images, HubJson& file) {
  constexpr int64_t least_squashed = 384;  // and the size where none is said
  const Side size = side_in(file, "size", {.extent = least_squashed}, false);
  file.require("size", !size.square, "shortest_edge");
  file.require("do_center_crop",
               !file.find("do_center_crop") || !file.find("do_center_crop")->as_bool(),
               "false: crop_pct says what is cut out");
  if (size.extent >= least_squashed) return squash_to(images, size.extent, size.extent);
  const double part = file.number("crop_pct", 0.01, 1, 0.875);
  shorten_to(images, static_cast<int64_t>(static_cast<double>(size.extent) / part), size.extent);
}

void set_size(Preprocess& images, HubJson& file, Processor processor, int64_t usual) {
  const bool deit = processor == Processor::deit, clip = processor == Processor::clip;
  const int64_t whole = deit ? usual * 256 / 224 : usual;
  const Side size = side_in(file, "size", {.extent = whole, .square = !clip}, !clip);
  const bool crops = processor == Processor::vit
                         ? file.find("do_center_crop") && file.find("do_center_crop")->as_bool()
                         : file.flag("do_center_crop", true);
  if (!crops) {
    file.require("do_center_crop", size.square, "true, as images are not square without it");
    return squash_to(images, size.extent, size.extent);
  }
  const Side crop = side_in(file, "crop_size", {.extent = usual, .square = true}, true);
  file.require("crop_size", crop.extent <= size.extent,
               fmt::format("at most size {}", size.extent));
  if (size.square) {
    squash_to(images, size.extent, crop.extent);
  } else {
    shorten_to(images, size.extent, crop.extent);
  }
}

}  // namespace

Preprocess transformers_images(HubJson& file, std::string_view model_type,
                               const HubNetwork& network) {
  Preprocess images{.rules = {.version = newest_data_rules}};
  const Processor processor = processor_of(file, model_type);
  file.require("do_resize", file.flag("do_resize", true), "true");
  for (const char* const step : {"do_pad", "do_flip_channel_order"}) {
    const JsonValue* const found = file.find(step);
    file.require(step, !found || !found->as_bool(), "false");
  }
  if (processor == Processor::convnext) {
    set_convnext_size(images, file);
  } else {
    set_size(images, file, processor, network.any_size ? 224 : network.image_size);
  }
  const int64_t filter = file.integer("resample", 0, 5, processor == Processor::vit ? 2 : 3);
  file.require("resample", filter == 2 || filter == 3, "2 (bilinear) or 3 (bicubic)");
  images.interpolation = filter == 3 ? Interpolation::bicubic : Interpolation::bilinear;
  Normalisation& normal = images.normalisation;
  normal.scale =
      file.flag("do_rescale", true)
          ? file.number("rescale_factor", 1 / most_normalisation, most_normalisation, 1.0 / 255)
          : 1;
  if (file.flag("do_normalize", true)) {
    const bool clip = processor == Processor::clip;
    const std::vector<double> half = {0.5, 0.5, 0.5};
    const std::vector<double> mean = file.channels(
        "image_mean", clip ? std::vector<double>{0.48145466, 0.4578275, 0.40821073} : half);
    set_normalisation(
        images, mean,
        file.channels("image_std",
                      clip ? std::vector<double>{0.26862954, 0.26130258, 0.27577711} : half));
  }
  check_images(images, file);
  const int64_t side = images.output().height;
  if (!network.any_size && side != network.image_size) {
    file.refuse("size",
                fmt::format("images of {} pixels, as image_size of config.json beside it",
                            network.image_size),
                fmt::to_string(side));
  }
  return images;
}

}  // namespace whisker
