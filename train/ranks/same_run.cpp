#include "train/ranks/same_run.h"

#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/files/file_walk.h"
#include "train/model/hub_folder.h"

#include <algorithm>
#include <set>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view own_keys[] = {"name",
                                         "runs",
                                         "device",
                                         "init.from",
                                         "data.train",
                                         "data.val",
                                         "data.test",
                                         "data.csv",
                                         "data.workers",
                                         "data.prefetch",
                                         "data.cache_limit_mib",
                                         "data.cache_file",
                                         "runtime"};

void add_leaves(const YamlNode& node, const std::string& path, Facts& facts) {
  const bool nested = node.is_map() || std::ranges::any_of(node.items(), [](const YamlNode& item) {
                        return !item.is_scalar();
                      });
  if (!nested) {
    std::string text = node.is_scalar() ? node.text() : "";
    for (const YamlNode& item : node.items()) text += (text.empty() ? "" : ", ") + item.text();
    facts.push_back({.name = path, .value = node.is_sequence() ? "[" + text + "]" : text});
    return;
  }
  for (size_t i = 0; i < node.size(); ++i) {
    const std::string below =
        node.is_map() ? (path.empty() ? "" : ".") + node.keys()[i] : fmt::format("[{}]", i);
    add_leaves(node[i], path + below, facts);
  }
}

std::string text_of(const JsonValue& state, std::string_view key) {
  return fmt::format("{}", state.at(key).as_int());
}

// Position in the run, so that the message can name it, and the whole of it.
Facts facts_of_checkpoint(const fs::path& file) {
  Facts facts;
  try {
    constexpr size_t most_bytes = 64 << 20;
    const std::string text = read_file(file, most_bytes, ErrorKind::checkpoint);
    const JsonValue state =
        JsonValue::parse(text, {.name = file.string(), .kind = ErrorKind::checkpoint});
    for (const char* key : {"epoch", "batch", "step"}) {
      facts.push_back({.name = key, .value = text_of(state, key)});
    }
    facts.push_back({.name = "last/state.json", .value = content_of(file)});
  } catch (const Error&) {  // loading it tells why
    facts.push_back({.name = "last/state.json", .value = "unreadable"});
  }
  return facts;
}

Facts facts_of_data(const Config& config, const RunData& data) {
  Facts facts = {{.name = "number of training examples", .value = std::to_string(data.train_size)},
                 {.name = "number of validation examples", .value = std::to_string(data.val_size)}};
  const auto add = [&](const Facts& more) { facts.insert(facts.end(), more.begin(), more.end()); };
  if (config.data.kind == DataKind::images) {
    facts = facts_of(data.images.train, "data.train");  // a file tells more than a number
    add(facts_of(data.images.val, "data.val"));
    for (Fact& fact : first_contents(data.images.train)) {
      facts.push_back({.name = "content of " + fact.name, .value = std::move(fact.value)});
    }
    return facts;
  }
  add(facts_of_files(std::span(&config.data.train, 1), "data.train"));
  if (!config.data.val.empty()) add(facts_of_files(std::span(&config.data.val, 1), "data.val"));
  facts.push_back({.name = "fingerprint of the data", .value = data.fingerprint});
  return facts;
}

}  // namespace

Facts facts_of_ranks(const Config& config) {
  Config kept = config;
  kept.init.from.clear();
  YamlNode root = YamlNode::parse(print_config(kept), "config");
  for (const std::string_view key : own_keys) root.set(key, YamlNode());
  Facts facts;
  add_leaves(root, "", facts);
  facts.push_back({.name = "init.from", .value = config.init.from.empty() ? "not given" : "given"});
  return facts;
}

void require_same_config(RankGroup& ranks, const Config& config, std::string_view remedy) {
  if (ranks.world() == 1) return;
  require_same(ranks, facts_of_ranks(config),
               {.kind = ErrorKind::usage, .what = "configuration", .remedy = remedy});
}

void require_same_checkpoint(RankGroup& ranks, const RunFolder& folder) {
  if (ranks.world() == 1) return;
  require_same(ranks, facts_of_checkpoint(folder.last() / "state.json"),
               {.kind = ErrorKind::checkpoint, .what = "run to resume"});
}

void require_same_start(RankGroup& ranks, const Config& config, const RunData& data,
                        const Facts& computes) {
  if (ranks.world() == 1) return;
  std::string hashed = data.fingerprint;
  for (const Fact& fact : first_contents(data.images.train)) hashed += fact.value;
  require_same(ranks, hash64(hashed), [&] { return facts_of_data(config, data); },
               {.kind = ErrorKind::data, .what = "set of training and validation data"});
  if (!config.init.from.empty()) {
    require_same(ranks,
                 Facts{{.name = "init.from", .value = content_of(weights_in(config.init.from))}},
                 {.kind = ErrorKind::checkpoint, .what = "weights file to start from"});
  }
  Facts facts = facts_of_ranks(config);
  facts.insert(facts.end(), computes.begin(), computes.end());
  require_same(ranks, facts, {.kind = ErrorKind::usage, .what = "configuration"});
}

Facts facts_of(const ImageFolder& folder, std::string_view in) {
  Facts facts;
  for (size_t i = 0; i < folder.classes.size(); ++i) {
    facts.push_back({.name = fmt::format("class {} in {}", i + 1, in), .value = folder.classes[i]});
  }
  for (const ImageFile& file : folder.files) {
    facts.push_back(
        {.name = fmt::format("{} in {}", file.path, in),
         .value = fmt::format("{}, {} bytes", folder.classes[static_cast<size_t>(file.label)],
                              file.bytes)});
  }
  return facts;
}

Facts first_contents(const ImageFolder& folder) {
  constexpr size_t most = 100;
  Facts facts;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < folder.size() && facts.size() < most; ++i) {
    const ImageFile& file = folder.files[static_cast<size_t>(i)];
    if (!seen.insert(file.label).second) continue;
    facts.push_back({.name = file.path, .value = content_of(folder.file(i))});
  }
  return facts;
}

std::string content_of(const fs::path& file) {
  try {
    const MappedFile mapped(file, ErrorKind::data);
    Hash64 hash;
    hash.update(mapped.bytes());
    return fmt::format("{} bytes, hash {}", mapped.bytes().size(), hash.hex());
  } catch (const Error&) {
    return "missing";
  }
}

Facts facts_of_files(std::span<const std::string> paths, std::string_view what) {
  Facts facts;
  for (size_t i = 0; i < paths.size(); ++i) {
    const fs::path path(paths[i]);
    const std::string name =
        paths.size() == 1 ? std::string(what) : fmt::format("{} {}", what, i + 1);
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      facts.push_back({.name = name, .value = content_of(path)});
      continue;
    }
    for (const WalkedFile& file : walk_files(path, what, OnUnreadable::list).files) {
      facts.push_back({.name = fmt::format("{} in {}", file.path, name),
                       .value = content_of(path / file.path)});
    }
  }
  return facts;
}

}  // namespace whisker
