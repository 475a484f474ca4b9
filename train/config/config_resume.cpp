// What a resumed run may change: how long it goes on, where its data lie, and how
// it is run and watched. Everything else would make another run of it.
#include "train/config/config.h"

#include <algorithm>

namespace whisker {
namespace {

// data.train and data.val may move: the fingerprint sees to it that they hold the same images.
constexpr std::string_view free_keys[] = {"name",
                                          "runs",
                                          "device",
                                          "data.train",
                                          "data.val",
                                          "data.test",
                                          "data.csv",
                                          "data.workers",
                                          "data.prefetch",
                                          "data.cache_limit_mib",
                                          "data.max_bad",
                                          "schedule.restart",
                                          "train.epochs",
                                          "train.early_stopping.patience",
                                          "train.time_budget_minutes",
                                          "train.log_every",
                                          "train.profile",
                                          "train.log_ranks",
                                          "train.report",
                                          "train.tensorboard",
                                          "train.histogram_every",
                                          "checkpoint.every",
                                          "checkpoint.keep",
                                          "runtime.threads",
                                          "runtime.graph",
                                          "runtime.memory.mode",
                                          "runtime.memory.limit",
                                          "init.from",
                                          "data.header",
                                          "data.text.rules"};

// Older runs have no value of these: see read_run_config(). The data's fingerprint tells.
constexpr std::string_view fixed_keys[] = {"name", "runs", "data.header", "data.text.rules"};

// "" when the trees are equal, else the path of the first difference and both values.
std::string first_difference(const YamlNode& before, const YamlNode& now, const std::string& path) {
  if (before.is_map() && now.is_map() && before.keys() == now.keys()) {
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string& key = before.keys()[i];
      const std::string found =
          first_difference(before[i], now[i], path.empty() ? key : path + "." + key);
      if (!found.empty()) return found;
    }
    return "";
  }
  if (before == now) return "";
  const auto text = [](const YamlNode& node) {
    std::string emitted = node.is_scalar() ? node.text() : node.emit();
    while (emitted.ends_with('\n')) emitted.pop_back();
    return emitted;
  };
  return fmt::format("{} was {}, now {}", path, text(before), text(now));
}

}  // namespace

bool may_change_on_resume(std::string_view key) {
  if (std::ranges::find(fixed_keys, key) != std::end(fixed_keys)) return false;
  return std::ranges::find(free_keys, key) != std::end(free_keys);
}

std::string config_kept_on_resume(const Config& config) {
  Config kept = config;
  kept.init.from.clear();
  YamlNode root = YamlNode::parse(print_config(kept), "config");
  for (const std::string_view key : free_keys) root.set(key, YamlNode());
  return root.emit();
}

std::string changed_on_resume(const std::string& before, const Config& now) {
  // Compared as configurations, not as texts: a key that is younger than the run has its default in
  // it, so that runs of older versions go on.
  Config then;
  try {
    YamlNode root = YamlNode::parse(before, "state.json: config");
    const YamlNode defaults = YamlNode::parse(print_config({}), "defaults");
    for (const std::string_view key : free_keys) root.set(key, *defaults.find_path(key));
    then = read_config_text(root.emit(), "state.json: config");
    if (!then.given.contains("data.rules")) then.data.rules = 1;
  } catch (const Error& error) {
    fail(ErrorKind::checkpoint,
         "{} A newer version of whisker may have written it; 'whisker version' says which this is.",
         error.what());
  }
  return first_difference(YamlNode::parse(config_kept_on_resume(then), "then"),
                          YamlNode::parse(config_kept_on_resume(now), "now"), "");
}

}  // namespace whisker
