#include "train/one_command.h"

#include "core/io/json.h"
#include "core/io/text.h"
#include "core/nvidia/cuda_library.h"
#include "data/files/split_folders.h"
#include "data/images/image_folder.h"
#include "layers/builder/presets.h"
#include "layers/weights/preset_name.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

std::string assignment(std::string_view key, const std::string& text) {
  return fmt::format("{}={}", key, JsonWriter().value(text).str());
}

// "photos" of photos and photos/train.
std::string name_of(const std::string& data) {
  std::error_code error;
  fs::path path = fs::absolute(data, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const bool split = split_of_name(path.filename().string()) == Split::train;
  if (split && path.parent_path().has_filename()) path = path.parent_path();
  return path.filename().empty() ? "run" : path.filename().string();
}

bool sets(const std::string& override, std::string_view key) {
  return override.starts_with(key) && override.substr(key.size()).starts_with('=');
}

bool any_sets(const std::vector<std::string>& overrides, std::string_view key) {
  return std::ranges::any_of(overrides, [&](const std::string& o) { return sets(o, key); });
}

// The configuration as far as the recipe depends on it: the device, and where labels come from.
Config config_before_the_recipe(const std::string& data,
                                const std::vector<std::string>& overrides) {
  std::vector<std::string> assignments = {assignment("data.train", data)};
  std::ranges::copy_if(overrides, std::back_inserter(assignments), [](const std::string& override) {
    return sets(override, "data.label_pattern") || sets(override, "data.csv") ||
           sets(override, "device") || sets(override, "train.epochs");
  });
  return read_config_text(std::string(new_network_recipe()), "whisker train --data", assignments);
}

// Asks the driver alone: the process that starts the ranks uses no GPU itself.
bool trains_on_gpu(const std::string& device) {
  return device.starts_with("cuda") || (device == "auto" && cuda_device_count() > 0);
}

// What the weights of that tag expect of images.
void add_tag(const WeightsTag& tag, const std::string& model,
             std::vector<std::string>& assignments) {
  if (!tag.name.empty() && !tag.known) {
    fail(ErrorKind::usage,
         "--model: the tag {} of {} is not known. Leave it out, and set data.mean, data.std and "
         "data.image_size where its weights expect images otherwise than the network's.",
         excerpt(tag.name), excerpt(model));
  }
  for (const std::string& setting : tag.settings()) assignments.push_back("data." + setting);
}

int64_t training_images(const std::string& data, const DataConfig& config) {
  std::optional<SplitFolders> splits;
  if (config.csv.empty() && config.label_pattern.find('/') == std::string::npos) {
    splits = find_splits(data, {.what = "--data",
                                .holds_examples = holds_images,
                                .labels_in_names = !config.label_pattern.empty()});
  }
  const int64_t images =
      open_image_folder(
          splits ? splits->train : fs::path(data),
          {.label_pattern = config.label_pattern, .csv = config.csv, .name = "--data"})
          .size();
  return splits && !splits->val.empty() ? images : images - images / 5;
}

}  // namespace

Config one_command_config(const OneCommand& command, const std::vector<std::string>& overrides) {
  std::vector<std::string> assignments = {assignment("data.train", command.data),
                                          "data.val=", assignment("name", name_of(command.data))};
  if (!command.model.empty()) {
    const auto name = find_preset_name(command.model);  // "timm/resnet18.a1_in1k" too
    const bool spelled =
        !find_preset(command.model) && name && !name->presets.empty() && name->tag.unread.empty();
    assignments.push_back(assignment("model", spelled ? name->presets[0] : command.model));
    if (spelled && !command.weights.empty()) add_tag(name->tag, command.model, assignments);
  }
  const Config before = config_before_the_recipe(command.data, overrides);
  const int64_t images = training_images(command.data, before.data);
  const bool batch_is_set =
      any_sets(overrides, "train.batch_size") || any_sets(overrides, "train.batch_size_per_gpu");
  std::string_view recipe = new_network_recipe();
  if (!command.weights.empty()) {
    recipe = fine_tune_recipe();
    const bool on_gpu = trains_on_gpu(before.device);
    const bool shares = any_sets(overrides, "train.epochs") && !any_sets(overrides, "unfreeze_at");
    const FineTunePlan plan = fine_tune_plan(images, on_gpu, shares ? before.train.epochs : 0);
    assignments.push_back(assignment("init.from", command.weights));
    assignments.push_back(fmt::format("unfreeze_at={}", plan.head_epochs));
    assignments.push_back(fmt::format("train.epochs={}", plan.head_epochs + plan.all_epochs));
    if (!any_sets(overrides, "unfreeze_at")) {  // 0 goes without it
      assignments.push_back(fmt::format("unfreeze_last={}", plan.last_blocks));
    }
    assignments.push_back(fmt::format("augment.crop_scale=[{}, 1]", plan.least_crop));
    // A GPU would wait for files. Decoding on it excludes a cache.
    if (on_gpu && !any_sets(overrides, "data.gpu_decode")) {
      assignments.emplace_back("data.cache=memory");
    }
  }
  if (images < 64 && !batch_is_set) {  // several steps an epoch, of so few
    assignments.push_back(fmt::format("train.batch_size={}", std::max<int64_t>(1, images / 4)));
  }
  assignments.insert(assignments.end(), overrides.begin(), overrides.end());
  Config config = read_config_text(std::string(recipe), "whisker train --data", assignments);
  const bool named = config.model.is_scalar() && find_preset(config.model.text());
  if (!command.weights.empty() && named) {  // its head as if the weights had named it
    config.model = preset_to_fine_tune(config.model.text(), config.init);
  }
  return config;
}

FineTunePlan fine_tune_plan(int64_t images, bool on_gpu, int64_t epochs) {
  // Epochs of the head hardly cost time; those of all layers do: with SqueezeNet about 120 s of two
  // CPU cores, or 1.2 s of a GPU. Many images train better on crops that show most of each, and
  // change little in the first blocks, which take a quarter of the time.
  images = std::max<int64_t>(1, images);
  const int64_t all_images = on_gpu ? 48'000 : 12'000;
  const bool many = images > 1500;
  FineTunePlan plan = {.head_epochs = std::clamp<int64_t>(20'000 / images, 5, 30),
                       .all_epochs = std::clamp<int64_t>(all_images / images, 1, 16),
                       .least_crop = many ? 0.6 : 0.35,
                       .last_blocks = many ? 0.7 : 1};
  if (epochs > 0) {
    const int64_t part = epochs * plan.head_epochs / (plan.head_epochs + plan.all_epochs);
    plan.head_epochs = std::clamp<int64_t>(part, 1, plan.head_epochs);
    plan.all_epochs = std::max<int64_t>(0, epochs - plan.head_epochs);
  }
  return plan;
}

}  // namespace whisker
