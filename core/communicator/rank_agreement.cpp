#include "core/communicator/rank_agreement.h"

#include "core/io/hash.h"
#include "core/io/text.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

std::vector<std::string> texts_of(const Facts& facts) {
  std::vector<std::string> texts;
  for (const Fact& fact : facts) {
    texts.push_back(fact.name);
    texts.push_back(fact.value);
  }
  return texts;
}

Facts facts_of(std::vector<std::string> texts) {
  Facts facts;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) {
    facts.push_back({.name = std::move(texts[i]), .value = std::move(texts[i + 1])});
  }
  return facts;
}

bool has_fact(const Facts& facts, const std::string& name) {
  return std::ranges::any_of(facts, [&](const Fact& fact) { return fact.name == name; });
}

// "optimizer.lr is 0.01, on rank 0 0.001"; "" where there is none.
std::string first_difference(const Facts& own, const Facts& leaders) {
  for (size_t i = 0; i < std::max(own.size(), leaders.size()); ++i) {
    const Fact* const here = i < own.size() ? &own[i] : nullptr;
    const Fact* const there = i < leaders.size() ? &leaders[i] : nullptr;
    if (here && there && here->name == there->name) {
      if (here->value == there->value) continue;
      return fmt::format("{} is {}, on rank 0 {}", printable(here->name), excerpt(here->value),
                         excerpt(there->value));
    }
    const bool lacks = there && (!here || !has_fact(own, there->name));
    const bool adds = here && (!there || !has_fact(leaders, here->name));
    if (lacks && adds) {  // as a file of another class
      return fmt::format("{} ({}) is in place of rank 0's {} ({})", printable(here->name),
                         excerpt(here->value), printable(there->name), excerpt(there->value));
    }
    if (lacks) {
      return fmt::format("{} is missing, on rank 0 it is {}", printable(there->name),
                         excerpt(there->value));
    }
    if (adds) {
      return fmt::format("{} is {}, on rank 0 it is missing", printable(here->name),
                         excerpt(here->value));
    }
    return fmt::format("{} comes in another order", printable(here ? here->name : there->name));
  }
  return "";
}

}  // namespace

std::string pack_texts(std::span<const std::string> texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const uint64_t size = text.size();
    packed.append(reinterpret_cast<const char*>(&size), sizeof size);
    packed += text;
  }
  return packed;
}

std::vector<std::string> unpack_texts(std::string_view packed) {
  std::vector<std::string> texts;
  while (packed.size() >= sizeof(uint64_t)) {
    uint64_t size = 0;
    std::memcpy(&size, packed.data(), sizeof size);
    packed.remove_prefix(sizeof size);
    texts.emplace_back(packed.substr(0, size));
    packed.remove_prefix(std::min<size_t>(size, packed.size()));
  }
  return texts;
}

std::vector<std::vector<std::string>> gather_texts(RankGroup& ranks,
                                                   std::span<const std::string> texts) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& packed : ranks.all_gather(pack_texts(texts))) {
    all.push_back(unpack_texts(packed));
  }
  return all;
}

void require_same(RankGroup& ranks, const Facts& facts, const Agreement& agreement) {
  if (ranks.world() == 1) return;
  require_same(
      ranks, hash64(pack_texts(texts_of(facts))), [&] { return facts; }, agreement);
}

void require_same(RankGroup& ranks, uint64_t hash, const std::function<Facts()>& facts,
                  const Agreement& agreement) {
  if (ranks.world() == 1) return;
  const std::vector<uint64_t> hashes = ranks.gather(hash);
  const auto other = [&](uint64_t one) { return one != hashes[0]; };
  const auto first = std::ranges::find_if(hashes, other);
  if (first == hashes.end()) return;
  const Facts own = facts();
  const Facts leaders = facts_of(
      unpack_texts(ranks.from_leader(pack_texts(texts_of(ranks.leads() ? own : Facts())))));
  const std::string difference = other(hash) ? first_difference(own, leaders) : "";
  const auto all = gather_texts(
      ranks, std::vector<std::string>{host_name(),
                                      difference})[static_cast<size_t>(first - hashes.begin())];
  const auto others = std::ranges::count_if(hashes, other) - 1;
  fail(agreement.kind,
       "rank {} on {}{} has another {} than rank 0: {}. All ranks compute one run: they may differ "
       "in device, paths, workers, prefetch, cache limits and runtime.*, in nothing else.{}{}",
       first - hashes.begin(), all[0], others == 0 ? "" : fmt::format(", as {} more,", others),
       agreement.what, all[1].empty() ? "its contents differ" : all[1],
       agreement.remedy.empty() ? "" : " ", agreement.remedy);
}

}  // namespace whisker
