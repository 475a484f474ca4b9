// Reads the typed configuration from a YAML tree.
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "core/io/user_folder.h"
#include "train/config/config.h"
#include "train/config/device_name.h"
#include "train/config/memory_limit.h"
#include "train/config/preprocess_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

namespace whisker {
namespace {

std::string limit(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value)
             ? fmt::format("{}", static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

// "a number above 0 and below 1", "an integer from 1 to 4096".
std::string expectation(const char* noun, const FieldInfo& info) {
  const bool low = std::isfinite(info.low), high = std::isfinite(info.high);
  if (low && high && !info.exclusive_low && !info.exclusive_high) {
    return fmt::format("{} from {} to {}", noun, limit(info.low), limit(info.high));
  }
  std::string text = noun;
  if (low) text += (info.exclusive_low ? " above " : " of at least ") + limit(info.low);
  if (low && high) text += " and";
  if (high) text += (info.exclusive_high ? " below " : " of at most ") + limit(info.high);
  return text;
}

bool in_range(double value, const FieldInfo& info) {
  return (info.exclusive_low ? value > info.low : value >= info.low) &&
         (info.exclusive_high ? value < info.high : value <= info.high);
}

// The value that `read` gets from `node`; an error names what was expected here.
template <class Read>
auto read_number(const YamlNode& node, const char* noun, const FieldInfo& info, Read read) {
  decltype(read(node)) value{};
  try {
    value = read(node);
  } catch (const Error& error) {
    // The reader's reason why a number-like value is not a number.
    const std::string_view why = error.what();
    const size_t fits = why.find("It must fit");
    node.fail_expected(expectation(noun, info),
                       fits == std::string_view::npos ? std::string_view() : why.substr(fits));
  }
  if (!in_range(static_cast<double>(value), info)) node.fail_expected(expectation(noun, info));
  return value;
}

// The only key of a section that has this name, as "optimizer.lr" for lr; "" for none or several.
std::string key_of_a_section(const std::string& name) {
  std::string found;
  for (const ConfigKey& key : config_keys()) {
    if (!key.path.ends_with("." + name)) continue;
    if (!found.empty()) return "";
    found = key.path;
  }
  return found;
}

class ConfigReader final : public FieldVisitor {
 public:
  /// `map` may be null: everything keeps its default. The keys that are there, behind `prefix`, go
  /// to `given`.
  ConfigReader(const YamlNode* map, std::string prefix, std::set<std::string, std::less<>>& given)
      : map_(map), prefix_(std::move(prefix)), given_(given) {
    if (map_ && map_->is_null()) map_ = nullptr;
    if (map_) map_->as_map();
  }

  /// Throws for the first key that no field asked for.
  void refuse_unknown() const {
    if (!map_) return;
    for (size_t i = 0; i < map_->size(); ++i) {
      const std::string& key = map_->keys()[i];
      if (std::ranges::find(known_, key) != known_.end()) continue;
      std::string nearest = nearest_name(key, known_);
      if (nearest.empty()) nearest = key_of_a_section(key);
      map_->fail_at_key(
          i, nearest.empty()
                 ? fmt::format("unknown key. Valid keys here: {}", fmt::join(known_, ", "))
                 : fmt::format("unknown key. Did you mean '{}'?", nearest));
    }
  }

  void field(const char* key, bool& value, const FieldInfo&) override {
    if (const YamlNode* node = find(key)) value = node->as_bool();
  }
  void field(const char* key, int64_t& value, const FieldInfo& info) override {
    if (const YamlNode* node = find(key)) value = integer(*node, info);
  }
  void field(const char* key, double& value, const FieldInfo& info) override {
    if (const YamlNode* node = find(key)) value = number(*node, info);
  }
  void field(const char* key, std::string& value, const FieldInfo&) override {
    const YamlNode* node = find(key);
    if (node) value = node->is_null() ? "" : node->as_string();
  }
  void field(const char* key, AutoInt& value, const FieldInfo& info) override {
    const YamlNode* node = find(key);
    if (!node) return;
    if (node->is_scalar() && node->text() == "auto") {
      value.value.reset();
    } else {
      value.value = read_number(*node, "auto or an integer", info,
                                [](const YamlNode& n) { return n.as_int(); });
    }
  }
  void field(const char* key, EnumField value, const FieldInfo&) override {
    const YamlNode* node = find(key);
    if (!node) return;
    const auto names = value.names();
    // data.kind until 0.1
    const std::string text = node->text() == "pictures" ? "images" : node->text();
    const auto found = std::ranges::find(names, text);
    if (!node->is_scalar() || found == names.end()) {
      const std::vector<std::string> candidates(names.begin(), names.end());
      const std::string nearest = nearest_name(node->text(), candidates);
      node->fail_expected(fmt::format("one of {}", fmt::join(names, ", ")),
                          nearest.empty() ? "" : fmt::format("Did you mean '{}'?", nearest));
    }
    value.set(static_cast<size_t>(found - names.begin()));
  }
  void field(const char* key, std::vector<double>& value, const FieldInfo& info) override {
    const YamlNode* node = find(key);
    if (!node) return;
    std::vector<double> read;
    for (const YamlNode& item : items(*node, info)) read.push_back(number(item, info));
    value = std::move(read);
  }
  void field(const char* key, std::vector<std::string>& value, const FieldInfo& info) override {
    const YamlNode* node = find(key);
    if (!node) return;
    std::vector<std::string> read;
    for (const YamlNode& item : items(*node, info)) read.push_back(item.as_string());
    value = std::move(read);
  }
  void node(const char* key, YamlNode& value, const FieldInfo&) override {
    if (const YamlNode* node = find(key)) value = *node;
  }
  void section(const char* key, const char*,
               const std::function<void(FieldVisitor&)>& visit_section) override {
    ConfigReader reader(find(key), prefix_ + key + ".", given_);
    visit_section(reader);
    reader.refuse_unknown();
  }
  void list(const char* key, const char*, size_t, const std::function<void(size_t)>& resize,
            const std::function<void(FieldVisitor&, size_t)>& visit_item) override {
    const YamlNode* node = find(key);
    if (!node) return;
    const auto elements = node->is_null() ? std::span<const YamlNode>() : node->as_sequence();
    resize(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      ConfigReader reader(&elements[i], fmt::format("{}{}[{}].", prefix_, key, i), given_);
      visit_item(reader, i);
      reader.refuse_unknown();
    }
  }

 private:
  const YamlNode* find(const char* key) {
    known_.emplace_back(key);
    const YamlNode* node = map_ ? map_->find(key) : nullptr;
    if (node) given_.insert(prefix_ + key);
    return node;
  }
  static int64_t integer(const YamlNode& node, const FieldInfo& info) {
    return read_number(node, "an integer", info, [](const YamlNode& n) { return n.as_int(); });
  }
  static double number(const YamlNode& node, const FieldInfo& info) {
    return read_number(node, "a number", info, [](const YamlNode& n) { return n.as_double(); });
  }
  static std::span<const YamlNode> items(const YamlNode& node, const FieldInfo& info) {
    const auto elements = node.is_null() ? std::span<const YamlNode>() : node.as_sequence();
    if (elements.size() < info.least || elements.size() > info.most) {
      node.fail_expected(info.least == info.most
                             ? fmt::format("a list of {}", info.least)
                             : fmt::format("a list of {} to {}", info.least, info.most));
    }
    return elements;
  }

  const YamlNode* map_;
  std::string prefix_;
  std::set<std::string, std::less<>>& given_;
  std::vector<std::string> known_;
};

// Rules that tie several keys together.
void check_together(const YamlNode& root, const Config& config) {
  const auto refuse = [&](const char* path, const std::string& expected,
                          const std::string& remedy = "") {
    const YamlNode* node = root.find_path(path);
    if (node) node->fail_expected(expected, remedy);
    fail(ErrorKind::usage, "{}: expected {}.{}{}", path, expected, remedy.empty() ? "" : " ",
         remedy);
  };
  if (config.schedule.restart > 0 && config.schedule.restart >= config.train.epochs) {
    refuse("schedule.restart",
           fmt::format("fewer epochs than train.epochs, which is {}", config.train.epochs),
           "Nothing remains for the schedule: raise train.epochs.");
  }
  if (config.unfreeze_at > 0 && config.freeze.empty()) {
    refuse("unfreeze_at", "patterns in freeze beside it");
  }
  if (config.unfreeze_last < 1 && config.unfreeze_at == 0) {
    refuse("unfreeze_last", "unfreeze_at above 0 beside it");
  }
  if (config.features == FeatureKind::cached) {
    const char* const remedy = "Leave features out.";
    if (config.freeze.empty()) refuse("features", "patterns in freeze beside cached");
    if (config.data.kind != DataKind::images) refuse("features", "images for cached", remedy);
    if (config.train.overfit_batches > 0) {
      refuse("features", "train.overfit_batches: 0 beside cached", remedy);
    }
  }
  if (config.name.empty() || config.name == "." || config.name == ".." ||
      config.name.find('/') != std::string::npos) {
    refuse("name", "a plain folder name", "The folder of all runs is the key runs.");
  }
  for (const std::string& name : device_list(config.device)) {
    const auto remedy = device_remedy(name);
    if (remedy) refuse("device", std::string(device_names), *remedy);
  }
  // `auto` is resolved later; see compute_dtype().
  const bool slow = config.device == "cpu" || config.device == "reference";
  if (slow && config.precision == PrecisionKind::f16) {
    refuse("precision", fmt::format("f32{}, as device is {}, which does not compute in f16",
                                    config.device == "cpu" ? " or bf16" : "", config.device));
  }
  if (config.train.batch_size_per_gpu > 0 && config.given.contains("train.batch_size")) {
    refuse("train.batch_size_per_gpu", "0, as train.batch_size is given",
           "Give one of the two: the size over all ranks, or that of each.");
  }
  const DataConfig& data = config.data;
  if (data.channels == 2) refuse("data.channels", "1 (gray) or 3 (RGB)");
  for (const auto& [path, list] : {std::pair{"data.mean", &data.mean}, {"data.std", &data.std}}) {
    if (list->size() != 1 && list->size() != static_cast<size_t>(data.channels)) {
      refuse(path,
             data.channels == 1 ? "one number, as data.channels is 1"
                                : "1 or 3 numbers, as data.channels is 3",
             fmt::format("The list has {}.", list->size()));
    }
  }
  if (!data.val.empty() && data.val_split > 0) {
    refuse("data.val_split", "0, as data.val is given",
           "Set data.val_split=0, or leave data.val empty.");
  }
  const bool crops =
      data.resize_mode == ResizeMode::crop || data.resize_mode == ResizeMode::squash_crop;
  if (crops && data.resize_short > 0 && data.resize_short < data.image_size) {
    refuse("data.resize_short",
           fmt::format("0 or at least data.image_size {}, which is cut from it", data.image_size));
  }
  constexpr int64_t largest_short_side = 8192;
  if (data.resize_short * data.train_image_size > largest_short_side * data.image_size) {
    refuse("data.train_image_size",
           fmt::format("at most {} data.image_size / data.resize_short, as data.resize_short "
                       "grows with it",
                       largest_short_side));
  }
  for (const auto& [path, range] : {std::pair{"augment.crop_scale", config.augment.crop_scale},
                                    {"augment.crop_ratio", config.augment.crop_ratio}}) {
    if (range.low > range.high) refuse(path, "the smaller number first");
  }
  const AugmentConfig& augment = config.augment;
  if (augment.trivial_augment && augment.rand_augment_ops > 0) {
    refuse("augment.trivial_augment", "false, as augment.rand_augment.num_ops is above 0",
           "Take one of them.");
  }
  if (!std::ranges::is_sorted(config.schedule.milestones)) {
    refuse("schedule.milestones", "ascending epochs");
  }
  if (config.optimizer.nesterov && config.optimizer.momentum == 0) {
    refuse("optimizer.nesterov", "optimizer.momentum above 0 beside it");
  }
  if (!memory_limit(config.runtime.memory.limit, int64_t{1} << 40)) {
    refuse("runtime.memory.limit",
           "bytes such as 2GiB, or a fraction of the device's memory above 0 and up to 1");
  }
  if (config.model.is_null()) {
    fail(ErrorKind::usage,
         "{}: model: expected a preset's name or a list of layers. Add for example 'model: "
         "chollet'.",
         root.mark().str());
  }
}

// A file of configs/presets: a network alone.
void refuse_preset(const YamlNode& root) {
  for (size_t i = 0; i < root.keys().size(); ++i) {
    if (root.keys()[i] != "layers" || root.find("model")) continue;
    root.fail_at_key(i,
                     "a network alone, like a preset, is not the configuration of a run. Name the "
                     "preset in a configuration (model=resnet18), or put the layers under model.");
  }
}

bool sets(const std::vector<std::string>& overrides, const std::string& key) {
  return std::ranges::any_of(
      overrides, [&](const std::string& assignment) { return assignment.starts_with(key + "="); });
}

// The override of a key of text says it as it stands, unless it is quoted: "runs=a # b" is no
// comment, '{label}/*' no map. null leaves it empty.
std::string as_yaml(const std::string& assignment) {
  const size_t begin = assignment.find('=') + 1;
  const std::string_view value = std::string_view(assignment).substr(begin);
  const bool is_yaml = begin == 0 || value.empty() || value == "null" || value == "~" ||
                       value.front() == '\'' || value.front() == '"' ||
                       value.find_first_of("\n\r\t") != std::string_view::npos;
  if (is_yaml) return assignment;
  static const std::vector<ConfigKey> keys = config_keys();
  const auto key = std::ranges::find(keys, assignment.substr(0, begin - 1), &ConfigKey::path);
  if (key == keys.end() || !key->is_text) return assignment;
  std::string text = assignment.substr(0, begin) + '\'';
  for (const char c : value) text.append(c == '\'' ? 2 : 1, c);
  return text + '\'';
}

// Before a folder of that name is made.
void refuse_unexpanded(const YamlNode& path) {
  const std::string remedy = path.is_scalar() ? unexpanded(path.text()) : "";
  if (!remedy.empty()) path.fail_expected("a path", remedy);
}

// A preset's name alone has no keys: model.recompute=true would be one.
void refuse_key_of_name(const YamlNode& root, std::string_view assignment) {
  constexpr std::string_view prefix = "model.";
  const YamlNode* const model = root.find("model");
  if (!assignment.starts_with(prefix) || !model || !model->is_scalar()) return;
  const std::string name = model->text();
  if (name.empty() || name == "from_weights") return;
  const size_t equals = std::min(assignment.find('='), assignment.size());
  const std::string_view key = assignment.substr(prefix.size(), equals - prefix.size());
  const bool deeper = key.find_first_of(".[") != std::string_view::npos;
  fail(ErrorKind::usage,
       "command line: {}: model is the name {} alone. Its keys are given with it: "
       "'model={{preset: {}, {}}}'.",
       printable(assignment.substr(0, equals)), excerpt(name), printable(name),
       deeper ? "..."
              : fmt::format("{}: {}", printable(key),
                            printable(assignment.substr(std::min(equals + 1, assignment.size())))));
}

// What a file says of the image's size and of the crop; 0: nothing that is a size.
DataConfig image_sizes(const YamlNode& root) {
  DataConfig data;
  for (const auto& [key, size] : {std::pair("data.image_size", &data.image_size),
                                  std::pair("data.resize_short", &data.resize_short)}) {
    const YamlNode* const node = root.find_path(key);
    if (!node) continue;
    try {
      *size = node->as_int();
    } catch (const Error&) {  // reading the configuration says it
      *size = 0;
    }
  }
  return data;
}

// An override of the image's size alone keeps how much of an image the center crop shows. Returns
// whether it changed the crop.
bool keep_crop(const DataConfig& before, const std::vector<std::string>& overrides,
               YamlNode& root) {
  if (!sets(overrides, "data.image_size") || sets(overrides, "data.resize_short")) return false;
  const int64_t size = image_sizes(root).image_size;
  if (before.resize_short <= 0 || before.image_size <= 0 || size <= 0) return false;
  const double ratio = static_cast<double>(size) / static_cast<double>(before.image_size);
  const int64_t resize_short = std::lround(static_cast<double>(before.resize_short) * ratio);
  root.set("data.resize_short", YamlNode::parse(std::to_string(resize_short), "command line"));
  return resize_short != before.resize_short;
}

// An override of data.channels alone, to gray, averages what the file says of three channels.
// Returns whether it did.
bool keep_gray(const std::vector<std::string>& overrides, YamlNode& root) {
  const YamlNode* const channels = root.find_path("data.channels");
  if (!sets(overrides, "data.channels") || !channels->is_scalar() || channels->text() != "1")
    return false;
  bool averaged = false;
  for (const char* key : {"data.mean", "data.std"}) {
    const YamlNode* const list = root.find_path(key);
    if (!list || !list->is_sequence() || list->size() != 3 || sets(overrides, key)) continue;
    double sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += (*list)[i].as_double();
    root.set(key, YamlNode::parse(fmt::format("[{}]", sum / 3), "command line"));
    averaged = true;
  }
  return averaged;
}

// An override of one size drops the other one of the file.
void keep_one_batch_size(const std::vector<std::string>& overrides, Config& config) {
  const bool whole = sets(overrides, "train.batch_size");
  const bool each = sets(overrides, "train.batch_size_per_gpu");
  if (whole && !each) config.train.batch_size_per_gpu = 0;
  if (each && !whole) config.given.erase("train.batch_size");
}

// A run that is read again keeps the paths of its file.
Config read_tree(YamlNode root, const std::vector<std::string>& overrides, bool new_run = false) {
  refuse_preset(root);
  const DataConfig before = image_sizes(root);
  for (const std::string& assignment : overrides) {
    refuse_key_of_name(root, assignment);
    root.set_override(as_yaml(assignment));
  }
  const bool cropped = keep_crop(before, overrides, root);
  const bool averaged = keep_gray(overrides, root);
  for (const std::string_view key : path_keys) {
    const YamlNode* path = root.find_path(key);
    if (path && (new_run || sets(overrides, std::string(key)))) refuse_unexpanded(*path);
  }
  Config config;
  ConfigReader reader(&root, "", config.given);
  visit_fields(reader, config);
  reader.refuse_unknown();
  if (cropped) config.given.emplace(crop_follows_size);
  if (averaged) config.given.emplace(mean_follows_channels);
  keep_one_batch_size(overrides, config);
  check_together(root, config);
  // A batch is that of one rank until settle_batch_size() knows their number.
  if (config.train.batch_size_per_gpu > 0)
    config.train.batch_size = config.train.batch_size_per_gpu;
  return config;
}

}  // namespace

Config read_config(const std::string& path, const std::vector<std::string>& overrides,
                   OtherTrain other_train) {
  if (file_ending(path) == ".safetensors") {
    std::error_code error;
    const auto beside = std::filesystem::path(path).parent_path() / "config.yaml";
    fail(ErrorKind::usage, "{}: expected a configuration (YAML), got a weights file.{}", path,
         std::filesystem::exists(beside, error)
             ? fmt::format(" {} describes its network.", beside.string())
             : " A run folder's config.yaml describes its network.");
  }
  std::error_code unknown;
  const std::filesystem::path inside = std::filesystem::path(path) / "config.yaml";
  if (std::filesystem::is_regular_file(inside, unknown)) {
    fail(ErrorKind::usage, "{}: expected a configuration (YAML), got a run folder. Give {}.", path,
         inside.string());
  }
  YamlNode root = YamlNode::parse_file(path);
  for (const char* key : {"data.val", "data.test"}) {
    if (other_train == OtherTrain::drops_val && root.find_path(key) &&
        sets(overrides, "data.train") && !sets(overrides, key)) {
      root.set(key, YamlNode());
    }
  }
  Config config = read_tree(std::move(root), overrides, other_train == OtherTrain::drops_val);
  if (other_train == OtherTrain::keeps_val && !config.given.contains("data.rules")) {
    config.data.rules = 1;
  }
  return config;
}

Config read_run_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config config = read_config(path, overrides, OtherTrain::keeps_val);
  config.init.run = std::filesystem::path(path).parent_path().string();
  DataConfig& data = config.data;
  if (!config.given.contains("data.text.rules")) data.text.rules = TokenRules::ascii;
  const bool numbered =
      is_column_number(data.label_column) && is_column_number(data.text.text_column);
  if (!config.given.contains("data.header") && data.kind == DataKind::text && numbered) {
    data.header = Header::absent;
  }
  return config;
}

Config read_config_text(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides) {
  return read_tree(YamlNode::parse(text, name), overrides);
}

}  // namespace whisker
