#include "apps/ranks/same_inputs.h"

#include "core/io/counted.h"
#include "core/version.h"
#include "train/ranks/same_run.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/ranges.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view own_options[] = {"--device", "--gpus", "--workers", "--max-restarts"};
// Where something is: what is there is compared once it is read.
constexpr std::string_view path_options[] = {
    "DATA",  "INPUTS", "WEIGHTS",      "--data",        "--weights", "--init",   "--csv",
    "--cam", "--out",  "--embeddings", "--predictions", "--resume",  "--classes"};

constexpr Agreement same_inputs{.kind = ErrorKind::data, .what = "list of inputs"};

std::optional<uint64_t> size_of_file(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? std::nullopt : std::optional<uint64_t>(size);
}

std::string text_of(const std::optional<uint64_t>& size) {
  return size ? counted(static_cast<int64_t>(*size), "byte") : "missing";
}

std::string without_prefix(const std::string& path, std::span<const std::string> prefixes) {
  for (const std::string& prefix : prefixes) {
    if (path == prefix) return fs::path(path).filename().string();
    if (path.starts_with(prefix.ends_with('/') ? prefix : prefix + "/")) {
      return path.substr(prefix.size() + (prefix.ends_with('/') ? 0 : 1));
    }
  }
  return path;
}

}  // namespace

void require_same_command(RankGroup& ranks, const CLI::App& command) {
  if (ranks.world() == 1) return;
  Facts facts = {{.name = "version", .value = version},
                 {.name = "command", .value = command.get_name()}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (std::ranges::count(own_options, name) > 0) continue;
    if (name == "CONFIG") continue;  // and its overrides: the configuration is compared
    const std::vector<std::string> words = option->results();
    if (std::ranges::count(path_options, name) > 0) {
      const bool by_rank_0 = std::ranges::count(words, "-") > 0;
      facts.push_back({.name = name,
                       .value = words.empty() ? "not given"
                                : by_rank_0   ? "standard input"
                                              : "given"});
    } else {
      const std::string defaults = option->get_default_str();
      facts.push_back({.name = name,
                       .value = !words.empty()     ? fmt::format("{}", fmt::join(words, " "))
                                : defaults.empty() ? "not given"
                                                   : defaults});
    }
  }
  require_same(ranks, facts, {.kind = ErrorKind::usage, .what = "command"});
}

void require_same_weights(RankGroup& ranks, const fs::path& weights, const Signature& signature) {
  if (ranks.world() == 1) return;
  Facts facts = {{.name = "WEIGHTS", .value = content_of(weights)}};
  for (size_t i = 0; i < signature.classes.size(); ++i) {
    facts.push_back({.name = fmt::format("class {}", i + 1), .value = signature.classes[i]});
  }
  facts.push_back({.name = "preprocessing", .value = signature.input_json()});
  require_same(ranks, facts, {.kind = ErrorKind::checkpoint, .what = "network"});
}

void require_same_images(RankGroup& ranks, const ImageFolder& images,
                         std::span<const std::string> prefixes) {
  if (ranks.world() == 1) return;
  Facts facts;
  for (int64_t i = 0; i < images.size(); ++i) {
    const ImageFile& file = images.files[static_cast<size_t>(i)];
    facts.push_back({.name = without_prefix(file.path, prefixes),
                     .value = fmt::format("{}, {}", images.classes[static_cast<size_t>(file.label)],
                                          text_of(size_of_file(images.file(i))))});
  }
  for (Fact& fact : first_contents(images)) {
    fact.name = "content of " + without_prefix(fact.name, prefixes);
    facts.push_back(std::move(fact));
  }
  require_same(ranks, facts, same_inputs);
}

void require_same_paths(RankGroup& ranks, std::span<const std::string> paths,
                        std::span<const std::string> prefixes) {
  if (ranks.world() == 1) return;
  Facts facts;
  for (const std::string& path : paths) {
    facts.push_back({.name = without_prefix(path, prefixes), .value = text_of(size_of_file(path))});
  }
  require_same(ranks, facts, same_inputs);
}

void require_same_files(RankGroup& ranks, std::span<const std::string> paths,
                        std::string_view what) {
  if (ranks.world() == 1) return;
  require_same(ranks, facts_of_files(paths, what), same_inputs);
}

std::vector<std::string> prefixes_of(std::vector<std::string> inputs, const fs::path& csv) {
  if (!csv.empty()) inputs.push_back(csv.parent_path().string());
  return inputs;
}

}  // namespace whisker
