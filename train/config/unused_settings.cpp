#include "train/config/unused_settings.h"

#include <algorithm>
#include <string_view>

namespace whisker {
namespace {

struct Rule {
  std::vector<std::string_view> keys;  // or sections
  bool (*read)(const Config&);
  std::string_view needs;
};

template <auto... kinds>
bool optimizer_is(const Config& c) {
  return ((c.optimizer.kind == kinds) || ...);
}

template <auto... kinds>
bool schedule_is(const Config& c) {
  return ((c.schedule.kind == kinds) || ...);
}

template <auto... kinds>
bool data_are(const Config& c) {
  return ((c.data.kind == kinds) || ...);
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
      {{"schedule.warmup_start"},
       [](const Config& c) { return c.schedule.warmup > 0; },
       "schedule.warmup above 0"},
      {{"schedule.restart_factor"},
       [](const Config& c) { return c.schedule.restart > 0; },
       "schedule.restart above 0"},
      {{"init.key", "init.skip", "init.new_head"},
       [](const Config& c) { return !c.init.from.empty(); },
       "init.from"},
      {{"ema.warmup"}, [](const Config& c) { return c.ema.decay > 0; }, "ema.decay above 0"},
      {{"train.early_stopping.min_delta"},
       [](const Config& c) { return c.train.early_stopping.patience > 0; },
       "train.early_stopping.patience above 0"},
      {{"augment"}, data_are<DataKind::images>, "data.kind images"},
      {{"data.csv", "data.label_pattern", "data.png_bits", "data.gpu_decode"},
       data_are<DataKind::images>,
       "data.kind images"},
      {{"data.label_column", "data.buckets"},
       data_are<DataKind::text, DataKind::rows>,
       "data.kind text or rows"},
      {{"data.header"},
       data_are<DataKind::text, DataKind::rows, DataKind::series>,
       "tables, of data.kind text, rows or series"},
      {{"data.rows"}, data_are<DataKind::rows>, "data.kind rows"},
      {{"data.text.keep"},
       [](const Config& c) { return c.data.text.max_length > 0; },
       "data.text.max_length above 0"},
      {{"data.text.text_column"}, data_are<DataKind::text>, "data.kind text"},
      {{"data.text.steps"}, data_are<DataKind::language>, "data.kind language"},
      {{"data.text"}, data_are<DataKind::text, DataKind::language>, "data.kind text or language"},
      {{"data.series"}, data_are<DataKind::series>, "data.kind series"},
      {{"augment.crop_scale", "augment.crop_ratio"},
       [](const Config& c) { return c.augment.random_resized_crop; },
       "augment.random_resized_crop true"},
      {{"augment.rand_augment.magnitude"},
       [](const Config& c) { return c.augment.rand_augment_ops > 0; },
       "augment.rand_augment.num_ops above 0"},
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

std::vector<std::string> unused_settings(const Config& config) {
  std::vector<std::string> changed;
  add_changed(YamlNode::parse(print_config(config), "config"),
              YamlNode::parse(print_config({}), "defaults"), "", changed);
  std::vector<std::string> lines;
  for (const Rule& rule : rules()) {
    if (rule.read(config)) continue;
    std::vector<std::string> unread;
    std::erase_if(changed, [&](const std::string& key) {
      const bool is_unread = std::ranges::any_of(
          rule.keys, [&](std::string_view section) { return is_in(key, section); });
      if (is_unread) unread.push_back(key);
      return is_unread;
    });
    if (unread.empty()) continue;
    const bool one = unread.size() == 1;
    lines.push_back(fmt::format("{} {} no effect: {} for {}", fmt::join(unread, ", "),
                                one ? "has" : "have", one ? "it is" : "they are", rule.needs));
  }
  return lines;
}

}  // namespace whisker
