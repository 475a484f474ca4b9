#include "train/loop/repeat.h"

#include "core/io/file.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/version.h"
#include "train/loop/resume.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace whisker {
namespace {

// Those of a device's properties that change no result.
constexpr std::array<std::string_view, 5> bits_do_not_follow = {"cores", "memory", "types",
                                                                "PCI bus", "multiprocessors"};

// The file of weights with its size and hash.
std::string last_model(const std::filesystem::path& run) {
  constexpr size_t most_bytes = 64 << 20;
  const std::filesystem::path path = run / "last" / "state.json";
  const JsonValue state = JsonValue::parse(read_file(path, most_bytes, ErrorKind::checkpoint),
                                           {.name = path.string(), .kind = ErrorKind::checkpoint});
  const JsonValue& model = state.at("model");
  return fmt::format("{} {} {}", model.at("name").as_string(), model.at("bytes").as_uint(),
                     model.at("hash").as_uint());
}

}  // namespace

std::vector<BackendProperty> environment_of(const Experiment& experiment) {
  std::vector<BackendProperty> all = {
      {.name = "whisker", .value = version},
      {.name = "device", .value = fmt::format("{}", Device{experiment.device.kind, 0})}};
  for (BackendProperty& one : backend_of(experiment.device).properties()) {
    if (std::ranges::find(bits_do_not_follow, one.name) == bits_do_not_follow.end())
      all.push_back(std::move(one));
  }
  all.push_back({.name = "ranks", .value = fmt::to_string(experiment.ranks->world())});
  return all;
}

std::string environment_difference(const std::vector<BackendProperty>& then,
                                   const std::vector<BackendProperty>& now) {
  const auto value_in = [](const std::vector<BackendProperty>& all, const std::string& name) {
    const auto found = std::ranges::find(all, name, &BackendProperty::name);
    return found == all.end() ? std::string("none") : found->value;
  };
  for (const auto* all : {&then, &now}) {
    for (const BackendProperty& one : *all) {
      const std::string before = value_in(then, one.name), after = value_in(now, one.name);
      if (before != after) return fmt::format("{}: {} then, {} now", one.name, before, after);
    }
  }
  return "";
}

void check_repeatable(const std::filesystem::path& run, const TrainState& recorded,
                      const Experiment& experiment) {
  const std::string name = printable(run.string());
  const std::string remedy = fmt::format(
      "'whisker train {}/config.yaml' trains with its configuration, but not to the same bits.",
      name);
  if (recorded.environment.empty()) {
    fail(ErrorKind::checkpoint,
         "--repeat: {} was trained by a version that did not record what its bits depend on. {}",
         name, remedy);
  }
  if (!recorded.unrepeatable.empty()) {
    fail(ErrorKind::checkpoint, "--repeat: {} cannot be repeated: {}. {}", name,
         recorded.unrepeatable, remedy);
  }
  const std::string other =
      environment_difference(recorded.environment, environment_of(experiment));
  if (!other.empty()) {
    fail(ErrorKind::checkpoint, "--repeat: expected the environment of {}, got {}. {}{}", name,
         other, other.starts_with("threads") ? "runtime.threads=N sets the threads. " : "", remedy);
  }
  if (recorded.data_fingerprint != experiment.data.fingerprint) {
    fail(ErrorKind::checkpoint,
         "--repeat: the training or validation data are not those of {} (files, sizes or labels). "
         "Restore them, or say where they are with data.train and data.val.",
         name);
  }
  const std::string changed = changed_on_resume(recorded.config, experiment.config);
  if (!changed.empty()) {
    fail(ErrorKind::checkpoint,
         "--repeat: {}/config.yaml is not the one the run was trained with: {}. Restore it.", name,
         changed);
  }
}

bool same_weights(const std::filesystem::path& run, const std::filesystem::path& other) {
  return last_model(run) == last_model(other);
}

}  // namespace whisker
