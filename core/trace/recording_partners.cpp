#include "core/trace/recording_partners.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace whisker {
namespace {

// The operators of each layer, in the order in which they ran.
std::map<std::string, std::vector<size_t>> operators_by_layer(const Recording& recording) {
  std::map<std::string, std::vector<size_t>> layers;
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    if (entry.kind == TapeKind::op) layers[entry.layer].push_back(i);
  }
  return layers;
}

// Matches the longest common subsequence of operators with one name and shape of the result: what
// is fused on one side alone has no partner, and what follows it has. Between what both begin and
// end with, a table of at most `most_cells` is made; more operators than that have no partners.
void match_operators(const Recording& a, std::span<const size_t> of_a, const Recording& b,
                     std::span<const size_t> of_b, std::vector<std::optional<size_t>>& partner) {
  constexpr size_t most_cells = 1 << 24;
  const auto alike = [&](size_t one, size_t other) {
    return a.entries[one].name == b.entries[other].name &&
           a.entries[one].shape() == b.entries[other].shape();
  };
  while (!of_a.empty() && !of_b.empty() && alike(of_a.front(), of_b.front())) {
    partner[of_a.front()] = of_b.front();
    of_a = of_a.subspan(1);
    of_b = of_b.subspan(1);
  }
  while (!of_a.empty() && !of_b.empty() && alike(of_a.back(), of_b.back())) {
    partner[of_a.back()] = of_b.back();
    of_a = of_a.first(of_a.size() - 1);
    of_b = of_b.first(of_b.size() - 1);
  }
  const size_t a_count = of_a.size(), b_count = of_b.size();
  if (b_count > 0 && a_count > most_cells / b_count) return;
  std::vector<uint32_t> lengths((a_count + 1) * (b_count + 1), 0);
  const auto at = [&](size_t i, size_t k) -> uint32_t& { return lengths[i * (b_count + 1) + k]; };
  for (size_t i = a_count; i-- > 0;) {
    for (size_t k = b_count; k-- > 0;) {
      at(i, k) =
          alike(of_a[i], of_b[k]) ? at(i + 1, k + 1) + 1 : std::max(at(i + 1, k), at(i, k + 1));
    }
  }
  for (size_t i = 0, k = 0; i < a_count && k < b_count;) {
    if (alike(of_a[i], of_b[k])) {
      partner[of_a[i++]] = of_b[k++];
    } else if (at(i + 1, k) >= at(i, k + 1)) {
      ++i;
    } else {
      ++k;
    }
  }
}

}  // namespace

std::vector<std::optional<size_t>> recording_partners(const Recording& a, const Recording& b) {
  std::vector<std::optional<size_t>> partner(a.entries.size());
  std::map<std::string, std::vector<size_t>> named;
  for (size_t i = b.entries.size(); i-- > 0;) {  // the first last
    if (b.entries[i].kind != TapeKind::op) named[b.entries[i].name].push_back(i);
  }
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].kind == TapeKind::op) continue;
    std::vector<size_t>& left = named[a.entries[i].name];
    if (left.empty()) continue;
    partner[i] = left.back();
    left.pop_back();
  }
  std::map<std::string, std::vector<size_t>> layers = operators_by_layer(b);
  for (const auto& [layer, operators] : operators_by_layer(a)) {
    match_operators(a, operators, b, layers[layer], partner);
  }
  return partner;
}

}  // namespace whisker
