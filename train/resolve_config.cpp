// The weights file first, because its network's preset may decide the preprocessing; then the data.
#include "train/resolve_config.h"

#include "core/io/text.h"
#include "data/files/split_folders.h"
#include "data/images/image_folder.h"
#include "data/sequences/labelled_text.h"
#include "layers/builder/presets.h"
#include "layers/weights/preset_of_file.h"
#include "train/config/preprocess_config.h"
#include "train/data/initial_input.h"
#include "train/data/run_data.h"
#include "train/model/hub_folder.h"
#include "train/model/network.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

using Notes = std::vector<std::string>;

// --- the network ---------------------------------------------------------------------------------

bool names_weights(const YamlNode& model) {
  return model.is_scalar() && model.text() == "from_weights";
}

// The preset that a file made elsewhere names or has the tensors of.
PresetOfFile preset_in(const SafetensorsFile& file, Notes& notes) {
  const std::string arch = network_in_metadata(file);
  if (find_preset(arch) && file.metadata().contains("preprocess")) return {.name = arch};
  if (auto preset = preset_of_file(file, {.metadata = arch})) {
    notes.push_back(fmt::format("{}: recognised by {} as {}", printable(file.name()), preset->by,
                                preset->name));
    for (std::string& note : notes_on(file.name(), *preset)) notes.push_back(std::move(note));
    return *preset;
  }
  if (find_preset(arch)) return {.name = arch};
  const std::string nearest = nearest_preset(file);
  fail(
      ErrorKind::checkpoint,
      "{}: neither 'config' nor 'arch' in the file's metadata describes the network, and no preset "
      "has its tensors' names and shapes{}{}{}. Start from weights of another network ('whisker "
      "models' "
      "lists them), or describe this one's layers under model.",
      file.name(), name_in_vain(file), nearest.empty() ? "" : "; ", nearest);
}

std::string preset_of(const YamlNode& model) {
  if (model.is_scalar()) return model.text();
  const YamlNode* preset = model.find("preset");
  return preset ? preset->text() : "";
}

// What the file is, of the configuration's network or of another one with equal tensors: weights
// from elsewhere that are said to be the other one load into it. Nothing where the tensors decide.
std::optional<PresetOfFile> check_network(const SafetensorsFile& file, const YamlNode& model,
                                          Notes& notes) {
  const Preset* const preset = find_preset(preset_of(model));
  if (!preset || file.metadata().contains("config")) return std::nullopt;
  std::optional<PresetOfFile> found;
  try {
    found = preset_of_file(file, {.metadata = network_in_metadata(file)});
  } catch (const Error&) {  // other tensors: loading them says what differs
    return std::nullopt;
  }
  const bool other = found && found->name != preset->name;
  if (other && std::ranges::count(found->others, preset->name) == 0) {
    notes.push_back(fmt::format(
        "warning: {} is {} by {}, not the configuration's {}, which computes or prepares images "
        "otherwise. model={} follows the weights.",
        printable(file.name()), found->name, found->by, preset->name, found->name));
  }
  return found;
}

// --- preprocessing -------------------------------------------------------------------------------

// How images became the input of these weights: as the file says or, where it is silent, as the
// preset's ImageNet weights expect, or those of the tag that `weights` have. Nothing for weights of
// sequences.
std::optional<Preprocess> preprocess_in(const SafetensorsFile& file, const YamlNode& model,
                                        const std::optional<PresetOfFile>& weights, Notes& notes) {
  const auto& metadata = file.metadata();
  if (metadata.contains("sequence")) return std::nullopt;
  const auto found = metadata.find("preprocess");
  if (found != metadata.end()) return Preprocess::from_json(found->second, file.name());
  const Preset* const preset = find_preset(preset_of(model));
  if (!preset || !weights || weights->name != preset->name) {
    return preset_preprocess(preset_of(model));
  }
  std::string note = unknown_tag_note(file.name(), *weights);
  if (!note.empty()) notes.push_back(std::move(note));
  return preset_preprocess(preset->name, weights->tag.data);
}

std::vector<double> per_channel(const std::array<double, 3>& values, int64_t channels) {
  if (channels == 1) return {gray_of(values)};
  const bool one = values[0] == values[1] && values[1] == values[2];
  return {values.begin(), values.begin() + (one ? 1 : 3)};
}

bool is_square(const Preprocess& stored) {
  const ImageSize size = stored.output();
  return size.height == size.width && stored.size.height == stored.size.width;
}

// `stored` as keys of the data section, in the units of what `given` sets: crops in proportion to
// its image_size, mean and std in those of its scale.
DataConfig data_of(const Preprocess& stored, const Config& config) {
  DataConfig data = config.data;
  const auto given = [&](std::string_view key) { return config.given.contains(key); };
  data.resize_mode = stored.resize_mode;
  data.interpolation = stored.interpolation;
  data.antialias = stored.antialias;
  data.channels = stored.channels;
  if (is_square(stored)) {
    data.image_size = stored.output().height;
    const int short_side = stored.resize_short > 0 ? stored.resize_short : stored.size.height;
    data.resize_short = short_side > data.image_size ? short_side : 0;
    const bool other_size = given("data.image_size") && !given("data.resize_short");
    if (other_size) {
      data.resize_short = std::lround(static_cast<double>(data.resize_short) *
                                      static_cast<double>(config.data.image_size) /
                                      static_cast<double>(data.image_size));
    }
  }
  const Normalisation& normal = stored.normalisation;
  const bool own_units = given("data.scale") || given("data.mean") || given("data.std");
  if (!own_units) data.scale = normal.scale;
  const double units = data.scale / normal.scale;
  const int64_t channels = given("data.channels") ? config.data.channels : data.channels;
  data.mean = per_channel(normal.mean, channels);
  data.std = per_channel(normal.std, channels);
  for (auto* values : {&data.mean, &data.std}) {
    for (double& value : *values) value *= units;
  }
  return data;
}

template <class T>
bool agree(T a, T b) {
  return a == b;
}
bool agree(double a, double b) {
  constexpr double rounding = 1e-9;
  return std::abs(a - b) <= rounding * std::max(std::abs(a), std::abs(b));
}
bool agree(const std::vector<double>& a, const std::vector<double>& b) {  // one stands for three
  for (size_t c = 0; c < std::max(a.size(), b.size()); ++c) {
    if (!agree(a[std::min(c, a.size() - 1)], b[std::min(c, b.size() - 1)])) return false;
  }
  return true;
}

// A key's value as print_config writes it.
std::string printed(const Config& config, const DataConfig& data, std::string_view key) {
  Config shown = config;
  shown.data = data;
  shown.init.from.clear();
  std::string text =
      YamlNode::parse(print_config(std::move(shown)), "config").find_path(key)->emit();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

void follow_preprocess(Config& config, const Preprocess& stored, const std::string& file,
                       Notes& notes) {
  const std::string name = printable(fs::path(file).filename().string());
  if (!is_square(stored) && !config.given.contains("data.image_size")) {
    const ImageSize size = stored.output();
    fail(ErrorKind::usage,
         "data.image_size: expected a size of its own, as {} is made for images of {}x{}, which "
         "are not square. Add data.image_size={}.",
         name, size.width, size.height, std::max(size.width, size.height));
  }
  if (!(stored.normalisation.scale > 0)) {
    fail(ErrorKind::checkpoint, "{}: preprocess.scale: expected a number above 0, got {}.", name,
         stored.normalisation.scale);
  }
  if (!is_square(stored)) {
    const ImageSize size = stored.output();
    notes.push_back(fmt::format(
        "warning: data.image_size is {} in the configuration, {}x{} in {}, whose weights were "
        "trained with that.",
        config.data.image_size, size.width, size.height, name));
  }
  const DataConfig theirs = data_of(stored, config);
  std::string taken;
  const auto follow = [&](std::string_view key, auto DataConfig::*value) {
    const bool given = !config.given.insert(std::string(key)).second;
    if (agree(config.data.*value, theirs.*value)) return;
    const std::string text = printed(config, theirs, key);
    if (given) {
      notes.push_back(fmt::format(
          "warning: {} is {} in the configuration, {} in {}, whose weights were trained with that. "
          "Leave {} out to follow the weights.",
          key, printed(config, config.data, key), text, name, key));
      return;
    }
    config.data.*value = theirs.*value;
    taken += fmt::format("{}{}={}", taken.empty() ? "" : ", ", key, text);
  };
  follow("data.image_size", &DataConfig::image_size);
  follow("data.resize_short", &DataConfig::resize_short);
  follow("data.resize_mode", &DataConfig::resize_mode);
  follow("data.interpolation", &DataConfig::interpolation);
  follow("data.antialias", &DataConfig::antialias);
  follow("data.channels", &DataConfig::channels);
  follow("data.scale", &DataConfig::scale);
  follow("data.mean", &DataConfig::mean);
  follow("data.std", &DataConfig::std);
  if (!taken.empty()) notes.push_back(fmt::format("preprocessing of {}: {}", name, taken));
  read_config_text(print_config(config), name + ": preprocess");  // ranges, and keys together
}

// What the vocabulary or the scaling of the weights is kept for: another value would change what
// their numbers mean.
void follow_input(Config& config, const InitialInput& initial, Notes& notes) {
  if (initial.file.empty()) return;  // of a run, whose configuration says it
  DataConfig theirs = config.data;
  std::vector<std::string> keys;
  if (const auto* text = std::get_if<TextInput>(&initial.input)) {
    theirs.text.level = text->level;
    theirs.text.rules = text->rules;
    theirs.text.lowercase = text->lowercase;
    keys = {"data.text.level", "data.text.rules", "data.text.lowercase"};
  } else if (const auto* rows = std::get_if<RowsInput>(&initial.input)) {
    theirs.rows.features = rows->features;
    keys = {"data.rows.features"};
  } else if (const auto* series = std::get_if<SeriesInput>(&initial.input)) {
    theirs.series.columns = series->columns;
    theirs.series.log = series->log;
    theirs.series.difference = series->difference;
    keys = {"data.series.columns", "data.series.log", "data.series.difference"};
  }
  std::string taken;
  for (const std::string& key : keys) {
    const std::string own = printed(config, config.data, key),
                      stored = printed(config, theirs, key);
    if (!config.given.insert(key).second && own != stored) {
      fail(
          ErrorKind::usage,
          "{}: expected {}, as the weights of {} were trained with, got {}. Leave {} out to follow "
          "the weights; init.skip of their first layer keeps it.",
          key, stored, initial.file, own, key);
    }
    if (own != stored) taken += fmt::format("{}{}={}", taken.empty() ? "" : ", ", key, stored);
  }
  config.data = std::move(theirs);
  if (!taken.empty()) notes.push_back(fmt::format("input of {}: {}", initial.file, taken));
}

// That the network of the weights, which is to be trained, reads what the data are.
void check_kind(const Signature& weights, const std::string& file, const DataConfig& data) {
  const bool of_images = std::holds_alternative<Preprocess>(weights.input);
  if (of_images == (data.kind == DataKind::images)) return;
  fail(ErrorKind::usage,
       "{}: expected weights of a network on {}, got one on {}. Train it on its own kind of data: "
       "data.kind in a configuration, and --init.",
       printable(file), of_images ? "sequences, as data.kind says" : "images", weights.examples());
}

void follow_weights(Config& config, Notes& notes) {
  const bool network = names_weights(config.model);
  if (config.init.from.empty()) {
    if (!network) return;
    config.model.fail_expected("init.from beside 'from_weights'",
                               "Add init.from=WEIGHTS, or --init WEIGHTS to train.");
  }
  std::error_code error;  // without the file a model can still be looked at; training fails later
  if (!network && !fs::exists(config.init.from, error)) return;
  config.init.from = weights_in(config.init.from);
  const SafetensorsFile file = open_described_weights(config.init.from, config.init.key);
  std::optional<PresetOfFile> weights;
  if (!network) {
    weights = check_network(file, config.model, notes);
  } else if (file.metadata().contains("config")) {
    const WeightsInfo info = WeightsInfo::from_file(file);
    check_kind(info.signature, file.name(), config.data);
    config.model = info.build(file.name()).section;
  } else {
    weights = preset_in(file, notes);
    config.model = preset_to_fine_tune(weights->name, config.init);
  }
  if (config.data.kind != DataKind::images) {
    if (const auto initial = initial_input(config)) {
      follow_input(config, *initial, notes);
    } else if (!file.metadata().contains("sequence")) {
      notes.push_back(
          fmt::format("warning: {} does not describe its input: the vocabulary, or the columns and "
                      "their scaling, are those of data.train, which may not be what it was "
                      "trained with",
                      printable(file.name())));
    }
    return;
  }
  if (const auto stored = preprocess_in(file, config.model, weights, notes)) {
    follow_preprocess(config, *stored, file.name(), notes);
  } else if (!config.given.contains("data.mean") && !config.given.contains("data.std")) {
    notes.push_back(
        fmt::format("warning: {} does not describe its preprocessing: data.mean and data.std are "
                    "the defaults, which may not be what it was trained with",
                    printable(file.name())));
  }
}

// --- metric --------------------------------------------------------------------------------------

void choose_f1(TrainSettings& train, Notes& notes) {
  if (train.metric != MetricKind::f1) return;
  const bool of_one = !train.positive_class.empty();
  train.metric = of_one ? MetricKind::f1_class : MetricKind::f1_macro;
  notes.push_back(
      of_one
          ? fmt::format("train.metric: f1 is f1_class, that of train.positive_class {}; the mean "
                        "over the classes is train.metric=f1_macro",
                        printable(train.positive_class))
          : std::string("train.metric: f1 is f1_macro, the mean over the classes; that of one "
                        "class is train.positive_class=NAME train.metric=f1_class"));
}

// --- data ----------------------------------------------------------------------------------------

// The splits that data.train holds, for data.train, data.val and data.test.
void find_parts(DataConfig& data, Notes& notes) {
  const bool images = data.kind == DataKind::images;
  if ((!images && data.kind != DataKind::text) || data.train.empty() || !data.val.empty()) return;
  const bool by_path = data.label_pattern.find('/') != std::string::npos;  // says what is read
  if (!data.csv.empty() || by_path) return;
  const auto found =
      find_splits(data.train, {.what = "data.train",
                               .holds_examples = images ? HoldsExamples(holds_images) : holds_texts,
                               .texts = !images,
                               .labels_in_names = images && !data.label_pattern.empty()});
  if (!found) return;
  const std::string root = printable(data.train);
  if (data.val_split > 0 && !found->val.empty()) {
    fail(ErrorKind::data,
         "data.val_split: {} holds {}: either that validates (data.val_split=0), or a fraction of "
         "the training folder (data.train={}).",
         root, printable(found->val.string()), printable(found->train.string()));
  }
  data.train = found->train.string();
  data.val = found->val.string();
  std::string note = fmt::format("{} holds splits: data.train is {}", root, printable(data.train));
  if (!data.val.empty()) note += fmt::format(", data.val is {}", printable(data.val));
  std::string unused;
  if (!found->test.empty() && data.test.empty()) {
    if (is_labelled(found->test, found->train, data)) {
      data.test = found->test.string();
      note += fmt::format(", data.test is {}", printable(data.test));
    } else {
      unused = fmt::format("{} without labels", printable(found->test.string()));
    }
  }
  if (!found->others.empty()) {
    unused += fmt::format("{}{}", unused.empty() ? "" : ", ", quoted_list(found->others));
  }
  if (data.val.empty() && data.val_split == 0) {
    data.val_split = 0.2;
    note += "; a fifth of data.train validates";
    if (!data.test.empty()) {
      note += fmt::format(" (data.val={} validates on the test set)", printable(data.test));
    }
  }
  if (!unused.empty()) note += fmt::format("; not used: {}", unused);
  notes.push_back(std::move(note));
}

// What overrides changed beside their own keys: see read_config().
void tell_followed(const Config& config, Notes& notes) {
  const DataConfig& data = config.data;
  if (config.given.contains(crop_follows_size)) {
    notes.push_back(fmt::format("data.resize_short={}, in proportion to data.image_size={}",
                                data.resize_short, data.image_size));
  }
  if (config.given.contains(mean_follows_channels)) {
    notes.push_back(
        fmt::format("data.mean=[{:.4g}] and data.std=[{:.4g}] for gray images: averages",
                    fmt::join(data.mean, ", "), fmt::join(data.std, ", ")));
  }
}

void split_off_validation(DataConfig& data, Notes& notes) {
  if (data.train.empty() || !data.val.empty() || data.val_split > 0) return;
  data.val_split = 0.2;
  notes.emplace_back(
      "a fifth of data.train is the validation split, as neither data.val nor data.val_split is "
      "given");
}

}  // namespace

bool is_labelled(const std::filesystem::path& test, const std::filesystem::path& train,
                 const DataConfig& data) {
  if (data.kind == DataKind::text) {
    const auto has_folders = [](const fs::path& root) {
      return !walk_files(root, "data.test", OnUnreadable::list).folders.empty();
    };
    return has_folders(test) == has_folders(train) && holds_texts(test);
  }
  std::vector<std::string> ignored;
  try {
    return open_image_folder(test, {.label_pattern = data.label_pattern,
                                    .name = "data.test",
                                    .on_unreadable = OnUnreadable::list,
                                    .problems = &ignored})
               .size() > 0;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return false;
  }
}

// A dense head is the same function, of features that can be cached, and without the relu that a
// new head may die of.
YamlNode preset_to_fine_tune(const std::string& name, InitConfig& init) {
  constexpr int64_t side = 224;
  const YamlNode section = YamlNode::parse(name, "preset");
  if (!init.new_head || !init.skip.empty()) return section;
  const Model model = build_model(section, {.input = {1, side, side, 3}, .classes = 1000});
  const auto is_head = [&](const auto& parameter) {
    return parameter->role() == ParameterRole::conv_weight &&
           selects(model.head[0], parameter->name());
  };
  if (!std::ranges::any_of(model.net->parameters(), is_head)) return section;
  init.skip = {model.head[0] + ".*", "head.*"};
  return YamlNode::parse(fmt::format("{{preset: {}, head: [global_avg_pool2d, dropout: 0.5, "
                                     "dense: {{name: head, units: classes}}]}}",
                                     name),
                         "preset");
}

Config resolve_config(Config config, std::vector<std::string>* notes) {
  Notes unread;
  Notes& told = notes ? *notes : unread;
  tell_followed(config, told);
  follow_weights(config, told);
  choose_f1(config.train, told);
  if (config.init.run.empty()) find_parts(config.data, told);  // a repeated run has found them
  split_off_validation(config.data, told);
  if (config.schedule.restart == 0 && config.unfreeze_at < config.train.epochs) {
    config.schedule.restart = config.unfreeze_at;
  }
  return config;
}

}  // namespace whisker
