#include "train/config/unused_settings.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace whisker {
namespace {

struct Rule {
  std::vector<std::string_view> keys;  // or sections
  bool (*read)(const Config&, int world);
  std::string_view needs;
  std::string_view where = {};  // " beyond ...", where they have no effect there alone
};

template <auto... kinds>
bool optimizer_is(const Config& c, int) {
  return ((c.optimizer.kind == kinds) || ...);
}

template <auto... kinds>
bool schedule_is(const Config& c, int) {
  return ((c.schedule.kind == kinds) || ...);
}

template <auto... kinds>
bool data_are(const Config& c, int) {
  return ((c.data.kind == kinds) || ...);
}

template <auto... modes>
bool resize_is(const Config& c, int) {
  return ((c.data.resize_mode == modes) || ...);
}

template <auto... kinds>
bool cache_is(const Config& c, int) {
  return ((c.data.cache == kinds) || ...);
}

bool several_ranks(const Config&, int world) {
  return world > 1;
}

bool unfreezes(const Config& c, int) {
  return c.unfreeze_at > 0 && c.unfreeze_at < c.train.epochs;
}

bool warps(const Config& c, int) {
  const AugmentConfig& a = c.augment;
  return a.rotation > 0 || a.shear > 0 || a.zoom > 0 || a.shift_horizontal > 0 ||
         a.shift_vertical > 0;
}

bool decays(const Config& c, int) {
  return c.optimizer.weight_decay > 0 ||
         std::ranges::any_of(c.optimizer.groups,
                             [](const GroupRule& rule) { return rule.weight_decay > 0; });
}

// Epochs of the longer part of the schedule, before and after its restart, behind the warm-up.
double schedule_epochs(const Config& c) {
  const int64_t restart = c.schedule.restart;
  return static_cast<double>(std::max(restart, c.train.epochs - restart)) - c.schedule.warmup;
}

bool reaches_a_step(const Config& c, int) {
  const ScheduleOptions& s = c.schedule;
  return s.kind != ScheduleKind::step || s.step_size < schedule_epochs(c);
}

bool reaches_a_milestone(const Config& c, int) {
  const ScheduleOptions& s = c.schedule;
  return s.kind != ScheduleKind::multi_step ||
         (!s.milestones.empty() && s.milestones.front() < schedule_epochs(c));
}

bool reaches_all_milestones(const Config& c, int) {
  return c.schedule.milestones.empty() || c.schedule.milestones.back() < schedule_epochs(c);
}

// A rate that falls at the last validation serves no step.
bool validates_beyond_patience(const Config& c, int) {
  const int64_t validations =
      (c.train.epochs + c.train.validate_every - 1) / c.train.validate_every;
  return c.schedule.kind != ScheduleKind::plateau || c.schedule.patience + 1 < validations;
}

bool restarts_something(const Config& c, int) {
  const ScheduleOptions& s = c.schedule;
  const bool unasked = s.restart == c.unfreeze_at;  // resolve_config()
  return unasked || s.kind != ScheduleKind::constant || s.warmup > 0 || s.restart_factor != 1;
}

// The first rule of a key counts.
const std::vector<Rule>& rules() {
  using enum OptimizerKind;
  using enum ScheduleKind;
  static const std::vector<Rule> all = {
      {{"optimizer.momentum"}, optimizer_is<sgd, rmsprop>, "optimizer.kind sgd or rmsprop"},
      {{"optimizer.nesterov"}, optimizer_is<sgd>, "optimizer.kind sgd"},
      {{"optimizer.beta1", "optimizer.beta2"},
       optimizer_is<adam, adamw>,
       "optimizer.kind adam or adamw"},
      {{"optimizer.alpha", "optimizer.centered"}, optimizer_is<rmsprop>, "optimizer.kind rmsprop"},
      {{"optimizer.epsilon"},
       optimizer_is<adam, adamw, rmsprop>,
       "optimizer.kind adam, adamw or rmsprop"},
      {{"optimizer.decay_all"}, decays, "a weight_decay above 0"},
      {{"schedule.gamma"},
       schedule_is<step, multi_step, exponential, plateau>,
       "schedule.kind step, multi_step, exponential or plateau"},
      {{"schedule.step_size"}, schedule_is<step>, "schedule.kind step"},
      {{"schedule.milestones"}, schedule_is<multi_step>, "schedule.kind multi_step"},
      {{"schedule.minimum"}, schedule_is<cosine, plateau>, "schedule.kind cosine or plateau"},
      {{"schedule.peak_at", "schedule.start_divisor", "schedule.final_divisor"},
       schedule_is<one_cycle>,
       "schedule.kind one_cycle"},
      {{"schedule.patience", "schedule.cooldown", "schedule.threshold"},
       schedule_is<plateau>,
       "schedule.kind plateau"},
      {{"schedule.kind", "schedule.gamma", "schedule.step_size", "schedule.milestones",
        "schedule.minimum", "schedule.peak_at", "schedule.patience", "schedule.cooldown",
        "schedule.threshold"},
       [](const Config& c, int) { return schedule_epochs(c) > 0; },
       "schedule.warmup that ends before the run does"},
      {{"schedule.kind", "schedule.gamma", "schedule.step_size"},
       reaches_a_step,
       "schedule.step_size below the run's epochs"},
      {{"schedule.kind", "schedule.gamma", "schedule.milestones"},
       reaches_a_milestone,
       "schedule.milestones below the run's epochs"},
      {{"schedule.milestones"},
       reaches_all_milestones,
       "epochs that the run reaches",
       " beyond the run's end"},
      {{"schedule.kind", "schedule.gamma", "schedule.minimum", "schedule.patience",
        "schedule.cooldown", "schedule.threshold"},
       validates_beyond_patience,
       "schedule.patience below the number of validations"},
      {{"schedule.warmup"},
       [](const Config& c, int) { return schedule_epochs(c) >= 0; },
       "epochs that the run reaches",
       " beyond the run's end"},
      {{"schedule.warmup_start"},
       [](const Config& c, int) { return c.schedule.warmup > 0; },
       "schedule.warmup above 0"},
      {{"unfreeze_at", "unfreeze_last"},
       [](const Config& c, int world) { return c.unfreeze_at == 0 || unfreezes(c, world); },
       "train.epochs above unfreeze_at"},
      {{"schedule.restart"},
       restarts_something,
       "another schedule.kind than constant, schedule.warmup or schedule.restart_factor"},
      // unfreeze_at restarts it; where that comes too late, its own line says so.
      {{"schedule.restart_factor"},
       [](const Config& c, int) { return c.schedule.restart > 0 || c.unfreeze_at > 0; },
       "schedule.restart above 0"},
      {{"init.key", "init.skip", "init.new_head"},
       [](const Config& c, int) { return !c.init.from.empty(); },
       "init.from"},
      {{"ema.warmup"}, [](const Config& c, int) { return c.ema.decay > 0; }, "ema.decay above 0"},
      {{"train.early_stopping.min_delta"},
       [](const Config& c, int) { return c.train.early_stopping.patience > 0; },
       "train.early_stopping.patience above 0"},
      {{"train.sync_batch_norm", "train.log_ranks"}, several_ranks, "several ranks"},
      {{"augment",
        "data.csv",
        "data.label_pattern",
        "data.image_size",
        "data.train_image_size",
        "data.channels",
        "data.resize_short",
        "data.resize_mode",
        "data.interpolation",
        "data.antialias",
        "data.scale",
        "data.mean",
        "data.std",
        "data.decode",
        "data.gpu_decode",
        "data.cache",
        "data.cache_limit_mib",
        "data.cache_file",
        "data.workers",
        "data.prefetch",
        "data.max_pixels",
        "data.png_bits"},
       data_are<DataKind::images>,
       "data.kind images"},
      {{"data.label_column", "data.buckets"},
       data_are<DataKind::text, DataKind::rows>,
       "data.kind text or rows"},
      {{"data.header"},
       data_are<DataKind::text, DataKind::rows, DataKind::series>,
       "tables, of data.kind text, rows or series"},
      {{"data.sampling", "data.max_bad", "train.drop_last"},
       data_are<DataKind::images, DataKind::text, DataKind::rows, DataKind::series>,
       "data.kind images, text, rows or series"},
      {{"data.rows"}, data_are<DataKind::rows>, "data.kind rows"},
      {{"data.text.max_length", "data.text.keep", "data.text.text_column"},
       data_are<DataKind::text>,
       "data.kind text"},
      {{"data.label_column", "data.header", "data.text.text_column"},
       [](const Config& c, int) {
         std::error_code error;
         return c.data.kind != DataKind::text ||
                !std::filesystem::is_directory(c.data.train, error);
       },
       "tables, not a folder of texts"},
      {{"data.text.keep"},
       [](const Config& c, int) { return c.data.text.max_length > 0; },
       "data.text.max_length above 0"},
      {{"data.text.steps"}, data_are<DataKind::language>, "data.kind language"},
      {{"data.text"}, data_are<DataKind::text, DataKind::language>, "data.kind text or language"},
      {{"data.series"}, data_are<DataKind::series>, "data.kind series"},
      {{"data.resize_short"},
       resize_is<ResizeMode::crop, ResizeMode::squash_crop>,
       "data.resize_mode crop or squash_crop"},
      {{"data.cache_file"}, cache_is<CacheKind::disk>, "data.cache disk"},
      {{"data.cache_limit_mib"},
       [](const Config& c, int world) {
         return c.features == FeatureKind::cached ||
                cache_is<CacheKind::memory, CacheKind::device>(c, world);
       },
       "data.cache memory or device, or features cached"},
      {{"augment"},
       [](const Config& c, int) { return c.train.overfit_batches == 0; },
       "train.overfit_batches 0"},
      {{"augment"},
       [](const Config& c, int world) {
         return c.features == FeatureKind::computed || world > 1 || c.unfreeze_at > 0;
       },
       "features computed, or unfreeze_at"},
      {{"augment.crop_scale", "augment.crop_ratio"},
       [](const Config& c, int) { return c.augment.random_resized_crop; },
       "augment.random_resized_crop true"},
      {{"augment.rand_augment.magnitude"},
       [](const Config& c, int) { return c.augment.rand_augment_ops > 0; },
       "augment.rand_augment.num_ops above 0"},
      {{"augment.fill_mode", "augment.fill_value"},
       warps,
       "augment.rotation, shear, zoom or shifts above 0"},
      {{"augment.fill_value"},
       [](const Config& c, int) { return c.augment.fill_mode == FillMode::constant; },
       "augment.fill_mode constant"},
      {{"augment.saturation", "augment.hue"},
       [](const Config& c, int) { return c.data.channels == 3; },
       "data.channels 3"},
  };
  return all;
}

bool is_in(const std::string& key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

// The paths whose values differ.
void add_changed(const YamlNode& now, const YamlNode& usual, const std::string& path,
                 std::vector<std::string>& changed) {
  if (!now.is_map() || !usual.is_map()) {
    if (!(now == usual)) changed.push_back(path);
    return;
  }
  for (const std::string& key : now.keys()) {
    const YamlNode* const other = usual.find(key);
    if (other) add_changed(*now.find(key), *other, path.empty() ? key : path + "." + key, changed);
  }
}

}  // namespace

std::vector<std::string> unused_settings(const Config& config, int world) {
  std::vector<std::string> changed;
  add_changed(YamlNode::parse(print_config(config), "config"),
              YamlNode::parse(print_config({}), "defaults"), "", changed);
  std::vector<std::string> lines;
  for (const Rule& rule : rules()) {
    if (rule.read(config, world)) continue;
    std::vector<std::string> unread;
    std::erase_if(changed, [&](const std::string& key) {
      const bool is_unread = std::ranges::any_of(
          rule.keys, [&](std::string_view section) { return is_in(key, section); });
      if (is_unread) unread.push_back(key);
      return is_unread;
    });
    if (unread.empty()) continue;
    const bool one = unread.size() == 1;
    lines.push_back(fmt::format("{} {} no effect{}: {} for {}", fmt::join(unread, ", "),
                                one ? "has" : "have", rule.where, one ? "it is" : "they are",
                                rule.needs));
  }
  return lines;
}

}  // namespace whisker
