#include "apps/commands/preset_config.h"

#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/atomic_file.h"
#include "layers/builder/presets.h"
#include "train/config/preprocess_config.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <system_error>

#include <fmt/ranges.h>

namespace whisker {
namespace fs = std::filesystem;

ShownConfig read_shown_config(const std::string& target, const std::vector<std::string>& overrides,
                              const ShownClasses& classes, const Invocation& invocation) {
  std::error_code error;
  const Preset* preset = find_preset(target);
  const bool is_file = fs::exists(target, error) && !fs::is_directory(target, error);
  if (is_file || !preset) return {.config = read_config(target, overrides)};
  const std::optional<Preprocess> images = preset_preprocess(preset->name);
  const bool rows = reads_rows(*preset);
  std::string text = fmt::format("name: {0}\nmodel: {0}\n", preset->name);
  if (rows) text += "data: {kind: rows}\n";
  if (images) text += fmt::format("data: {{image_size: {}}}\n", images->output().height);
  ShownConfig shown{.config =
                        read_config_text(text, fmt::format("preset {}", preset->name), overrides)};
  const DataConfig& data = shown.config.data;
  if (!data.train.empty()) return shown;
  shown.classes = images ? 1000 : 2;
  std::vector<std::string> assumed, options;
  const std::string_view size_key = rows ? "data.rows.features=" : "data.image_size=";
  const bool size_given = std::ranges::any_of(
      overrides, [&](const std::string& one) { return one.starts_with(size_key); });
  if (classes.given == 0) assumed.push_back(fmt::format("{} classes", shown.classes));
  if (!size_given) {
    assumed.push_back(rows ? fmt::format("rows of {} numbers a step", data.rows.features)
                           : fmt::format("images of {} px", data.image_size));
    options.push_back(fmt::format("{}N", size_key));
  }
  if (classes.given == 0) options.emplace_back(classes.options);
  if (assumed.empty() || invocation.verbosity < 0) return shown;
  tell(fmt::format("{} is a preset: {} are assumed; {} {} otherwise\n", preset->name,
                   fmt::join(assumed, ", "), fmt::join(options, " and "),
                   options.size() > 1 ? "decide" : "decides"));
  return shown;
}

RandomImages::RandomImages(int64_t count, int64_t classes, int64_t side) {
  std::string name = (fs::temp_directory_path() / "whisker_bench_XXXXXX").string();
  if (!::mkdtemp(name.data())) {
    fail(ErrorKind::disk, "bench: cannot make the folder {}: {}", name, std::strerror(errno));
  }
  folder_ = name;
  std::string image = fmt::format("P6\n{0} {0}\n255\n", side);
  std::mt19937 random;  // NOLINT: the same image every time
  for (int64_t i = 0; i < 3 * side * side; ++i) image += static_cast<char>(random() & 0xff);
  fs::path first;
  for (int64_t i = 0; i < std::max(count, classes); ++i) {
    const fs::path file = folder_ / fmt::format("{:04}.{}.ppm", i % classes, i / classes);
    if (first.empty()) {
      write_file_atomically(first = file, image);
    } else {
      fs::create_hard_link(first, file);
    }
  }
}

RandomImages::~RandomImages() {
  std::error_code unknown;
  fs::remove_all(folder_, unknown);
}

void RandomImages::become_data_of(Config& config) const {
  config.data.train = config.data.val = folder_.string();
  config.data.label_pattern = "{label}.*.ppm";
}

}  // namespace whisker
