// The drawn data sets on disk.
#include "data/synthetic/generate.h"

#include "data/codec/encode_jpeg.h"
#include "data/files/new_file.h"
#include "data/parallel.h"

#include <atomic>
#include <cmath>
#include <numbers>
#include <string>

#include <fmt/format.h>

namespace whisker {
namespace {

/// Image `number` of a class, counted over train and val together.
std::vector<uint8_t> draw_file(uint64_t seed, bool cat, int64_t number) {
  // An image draws about 2^18 numbers; they are 2^40 blocks apart.
  const uint64_t stream = cat ? stream_of("drawn cat") : stream_of("drawn dog");
  PhiloxStream random(seed, stream, static_cast<uint64_t>(number) << 40);
  const int height = 128 + static_cast<int>(random.below(73));
  const int width = 128 + static_cast<int>(random.below(73));
  const Image image = draw_face(cat, height, width, random);
  std::string comment = fmt::format("{} face drawn by whisker data generate, seed {}, number {}",
                                    cat ? "cat" : "dog", seed, number);
  return encode_jpeg(
      image, {.quality = 70 + static_cast<int>(random.below(26)), .comment = std::move(comment)});
}

constexpr int sensors = 10, fewest_steps = 12, most_steps = 40;

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

uint64_t generate_images(const GenerateOptions& options) {
  make_empty_folder(options.folder, "data generate");
  const std::string_view about =
      "The images in this folder are no photographs: `whisker data generate` drew them.\n";
  write_new_file(options.folder / "README.txt", std::as_bytes(std::span(about)));
  for (const char* name : {"cat", "dog"}) {
    make_folders(options.folder / "train" / name);
    if (options.val_per_class > 0) make_folders(options.folder / "val" / name);
  }
  std::atomic<uint64_t> bytes = 0;
  const int64_t per_class = options.train_per_class + options.val_per_class;
  parallel_for(2 * per_class, options.workers, [&](int64_t i) {
    const char* const name = i % 2 == 0 ? "cat" : "dog";
    const char* const part = i / 2 < options.train_per_class ? "train" : "val";
    const std::vector<uint8_t> file = draw_file(options.seed, i % 2 == 0, i / 2);
    write_new_file(options.folder / part / name / fmt::format("{}.{}.jpg", name, i / 2),
                   std::as_bytes(std::span(file)));
    bytes += file.size();
  });
  return bytes;
}

uint64_t generate_waves(const GenerateOptions& options) {
  make_empty_folder(options.folder, "data generate");
  int64_t number = 0;
  uint64_t bytes = 0;
  for (const int64_t per_class : {options.train_per_class, options.val_per_class}) {
    std::string text;
    for (const int64_t end = number + 2 * per_class; number < end;) {
      text += draw_row(options.seed, number++);
    }
    if (text.empty()) continue;
    write_new_file(options.folder / (bytes == 0 ? "train.csv" : "val.csv"),
                   std::as_bytes(std::span(text)));
    bytes += text.size();
  }
  return bytes;
}

}  // namespace whisker
