#include "apps/commands/acting_options.h"

#include "core/error.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>

namespace whisker {
namespace {

struct ActingRule {
  std::vector<std::string_view> options;
  std::vector<DataKind> kinds;  // that they act on; empty: those where `where` holds
  bool OptionUse::*where;
  std::string_view needs;
  std::string_view command = {};  // the only one that it is for
};

const std::vector<ActingRule>& acting_rules() {
  using enum DataKind;
  static const std::vector<ActingRule> all = {
      {{"--cam", "--embeddings", "--tta", "--workers", "--label-pattern"},
       {images},
       nullptr,
       "images"},
      {{"--text"}, {text}, nullptr, "texts"},
      {{"--text-column"}, {text}, nullptr, "texts"},
      {{"--label-column"}, {rows}, nullptr, "rows", "classify"},
      {{"--label-column"}, {text, rows}, nullptr, "texts and rows"},
      {{"--header"}, {text, rows, series}, nullptr, "texts, rows and series"},
      {{"--top", "--threshold", "--predictions", "--worst", "--csv", "--calibrate"},
       {images, text, rows},
       nullptr,
       "images, texts and rows, which have classes"},
      {{"--label-column", "--text-column", "--header"},
       {},
       &OptionUse::names_data,
       "data that are named; --split reads them as the run did"},
      {{"--val"}, {}, &OptionUse::names_data, "a folder; a configuration has data.val"},
      {{"--null"}, {}, &OptionUse::reads_stdin, "names or texts on standard input, '-'"},
  };
  return all;
}

}  // namespace

OptionUse use_of(const Signature& signature) {
  constexpr DataKind kinds[] = {DataKind::images, DataKind::text, DataKind::rows, DataKind::series};
  const bool language = signature.task() == Task::language_model;
  return {.kind = language ? DataKind::language : kinds[signature.input.index()],
          .got = fmt::format("a network trained on {}", signature.examples())};
}

void require_acting_options(const CLI::App& command, const OptionUse& use) {
  const CLI::App* const above = command.get_parent();
  const std::string group = above->get_parent() ? above->get_name() + " " : "";
  for (const ActingRule& rule : acting_rules()) {
    const bool by_kind = !rule.kinds.empty();
    const bool acts = by_kind ? std::ranges::count(rule.kinds, use.kind) > 0 : use.*rule.where;
    if (acts || (!rule.command.empty() && rule.command != command.get_name())) continue;
    for (const std::string_view name : rule.options) {
      const CLI::Option* option = command.get_option_no_throw(std::string(name));
      if (!option || option->count() == 0) continue;
      fail(ErrorKind::usage, "{}{}: {} is for {}{}{}.", group, command.get_name(), name, rule.needs,
           by_kind ? ", got " : "", by_kind ? use.got : "");
    }
  }
}

}  // namespace whisker
