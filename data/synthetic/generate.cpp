// The drawn data sets on disk.
#include "data/synthetic/generate.h"

#include "core/error.h"
#include "data/codec/encode_jpeg.h"
#include "data/files/new_file.h"
#include "data/parallel.h"
#include "data/synthetic/draw_face.h"

#include <array>
#include <atomic>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <string_view>

namespace whisker {
namespace {

constexpr std::array<std::string_view, 2> names = {"cat", "dog"};

void check_counts(const GenerateOptions& options) {
  if (options.train_per_class >= 1 && options.val_per_class >= 0) return;
  fail(ErrorKind::usage,
       "data generate: expected at least 1 example per class to train and 0 to validate, got {} "
       "and {}.",
       options.train_per_class, options.val_per_class);
}

void check(const GenerateOptions& options) {
  check_counts(options);
  if (options.min_side < 16 || options.max_side < options.min_side || options.max_side > 4096) {
    fail(ErrorKind::usage, "data generate: expected sides within 16 to 4096, got {} to {}.",
         options.min_side, options.max_side);
  }
}

/// Image `number` of a class, counted over train and val together.
std::vector<uint8_t> draw_file(const GenerateOptions& options, size_t animal, int64_t number) {
  // An image draws about 2^18 numbers at the usual size; they are 2^40 blocks apart.
  const uint64_t stream = animal == 0 ? stream_of("drawn cat") : stream_of("drawn dog");
  PhiloxStream random(options.seed, stream, static_cast<uint64_t>(number) << 40);
  const auto side = [&] {
    const auto choices = static_cast<uint32_t>(options.max_side - options.min_side + 1);
    return options.min_side + static_cast<int>(random.below(choices));
  };
  const int height = side();
  const int width = side();
  const int quality = 70 + static_cast<int>(random.below(26));
  const Image image = draw_face(animal == 0 ? Animal::cat : Animal::dog, height, width, random);
  return encode_jpeg(image, {.quality = quality,
                             .comment = fmt::format("{} face drawn by whisker data generate, "
                                                    "seed {}, number {}",
                                                    names[animal], options.seed, number)});
}

constexpr int sensors = 10;
constexpr int fewest_steps = 12, most_steps = 40;

// Sequence `number`, counted over train and val together; every second one travels left.
std::string draw_row(uint64_t seed, int64_t number) {
  // A sequence draws fewer than 2^20 numbers.
  PhiloxStream random(seed, stream_of("wave"), static_cast<uint64_t>(number) << 20);
  const bool left = number % 2 == 0;
  const int steps = fewest_steps + static_cast<int>(random.below(most_steps - fewest_steps + 1));
  const double wave_number = 2 * std::numbers::pi / random.uniform(6, 14);  // per sensor
  const double frequency = (left ? 1 : -1) * random.uniform(0.4, 1.2);      // per step
  const double phase = random.uniform(0, 2 * std::numbers::pi);
  std::string row = left ? "left" : "right";
  for (int t = 0; t < steps; ++t) {
    for (int k = 0; k < sensors; ++k) {
      const double wave = std::sin(phase + wave_number * k + frequency * t);
      row += fmt::format(",{:.2f}", wave + 1.5 * random.normal());
    }
  }
  row.append(static_cast<size_t>((most_steps - steps) * sensors), ',');
  return row + "\n";
}

}  // namespace

GenerateResult generate_images(const GenerateOptions& options) {
  check(options);
  make_empty_folder(options.folder, "data generate");
  GenerateResult result;
  result.train = options.folder / "train";
  if (options.val_per_class > 0) result.val = options.folder / "val";
  for (const std::string_view name : names) {
    make_folders(result.train / name);
    if (!result.val.empty()) make_folders(result.val / name);
  }
  const std::string about = fmt::format(
      "The images in this folder are no photographs: `whisker data generate` drew them.\nClasses: "
      "cat, dog. Per class: {} to train, {} to validate. Seed: {}.\nThey let you try Whisker "
      "without data. A network trained on them recognises these drawings,\nnot real cats and "
      "dogs.\n",
      options.train_per_class, options.val_per_class, options.seed);
  write_new_file(options.folder / "README.txt", std::as_bytes(std::span(about)));
  const int64_t per_class = options.train_per_class + options.val_per_class;
  std::atomic<uint64_t> bytes = 0;
  parallel_for(2 * per_class, options.workers, [&](int64_t i) {
    const auto animal = static_cast<size_t>(i % 2);
    const int64_t number = i / 2;
    const std::vector<uint8_t> file = draw_file(options, animal, number);
    const auto& part = number < options.train_per_class ? result.train : result.val;
    write_new_file(part / names[animal] / fmt::format("{}.{}.jpg", names[animal], number),
                   std::as_bytes(std::span(file)));
    bytes += file.size();
  });
  result.files = 2 * per_class;
  result.bytes = bytes;
  return result;
}

int64_t generate_waves(const GenerateOptions& options) {
  check_counts(options);
  make_empty_folder(options.folder, "data generate");
  int64_t number = 0, bytes = 0;
  const auto write = [&](const char* name, int64_t per_class) {
    std::string text;
    for (const int64_t end = number + 2 * per_class; number < end; ++number) {
      text += draw_row(options.seed, number);
    }
    write_new_file(options.folder / name, std::as_bytes(std::span(text)));
    bytes += std::ssize(text);
  };
  write("train.csv", options.train_per_class);
  if (options.val_per_class > 0) write("val.csv", options.val_per_class);
  return bytes;
}

}  // namespace whisker
