#include "data/synthetic/generate_waves.h"

#include "core/error.h"
#include "core/tensor/philox.h"
#include "data/files/new_file.h"

#include <cmath>
#include <numbers>
#include <span>
#include <string>

namespace whisker {
namespace {

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
