#include "data/sequences/validation_split.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/tensor/philox.h"
#include "data/files/file_walk.h"
#include "data/parallel.h"
#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace whisker {

std::vector<bool> choose_validation(std::span<const int64_t> labels,
                                    std::span<const std::string> classes, double fraction,
                                    uint64_t seed, std::span<const int64_t> originals) {
  if (!(fraction > 0 && fraction < 1)) {
    fail(ErrorKind::usage, "data.val_split: expected a number between 0 and 1, got {}.", fraction);
  }
  std::vector<std::vector<int64_t>> members(classes.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    members[static_cast<size_t>(labels[i])].push_back(static_cast<int64_t>(i));
  }
  const auto original = [&](int64_t i) {
    return originals.empty() ? i : originals[static_cast<size_t>(i)];
  };
  std::map<int64_t, bool> sides;  // by original: whether it is held back
  for (const auto& only : members) {
    if (only.size() == 1) sides[original(only.front())] = false;
  }
  if (std::ranges::none_of(members, [](const auto& some) { return some.size() > 1; })) {
    fail(ErrorKind::data,
         "data.val_split: no class has the 2 examples that are needed to split it into train and "
         "val. Add examples, or name data.val, which may lack classes.");
  }
  for (size_t label = 0; label < members.size(); ++label) {
    const auto count = std::ssize(members[label]);
    if (count < 2) continue;
    shuffle(members[label], seed, stream_of("val_split"), label);
    const auto wanted =
        std::clamp<int64_t>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
    std::map<int64_t, int64_t> sizes;  // by original: examples of this class
    for (const int64_t i : members[label]) ++sizes[original(i)];
    int64_t taken = 0;
    for (const auto& [first, size] : sizes) {  // copies of examples of the classes before
      if (const auto side = sides.find(first); side != sides.end() && side->second) taken += size;
    }
    std::optional<int64_t> fewest;  // in the order of the shuffle
    for (const int64_t i : members[label]) {
      const int64_t first = original(i);
      if (sides.contains(first)) continue;
      if (!fewest || sizes[first] < sizes[*fewest]) fewest = first;
      sides[first] = taken + sizes[first] <= wanted;
      if (sides[first]) taken += sizes[first];
    }
    if (taken == 0 && fewest) {  // each is there more often than wanted
      sides[*fewest] = true;
      taken = sizes[*fewest];
    }
    if (taken == 0 || taken == count) {
      fail(ErrorKind::data,
           "data.val_split: the {} examples of class '{}' are copies of each other or of other "
           "classes' and cannot be split into train and val. `whisker data check` lists copies.",
           count, printable(classes[label]));
    }
  }
  std::vector<bool> held(labels.size());
  for (size_t i = 0; i < held.size(); ++i) held[i] = sides.at(original(static_cast<int64_t>(i)));
  return held;
}

std::vector<int64_t> find_copies(std::span<const uint64_t> sizes,
                                 const std::function<uint64_t(int64_t)>& content) {
  std::map<uint64_t, int64_t> of_size;
  for (const uint64_t size : sizes) ++of_size[size];
  std::vector<int64_t> alike;  // those that another one may be the same as
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (of_size[sizes[i]] > 1) alike.push_back(static_cast<int64_t>(i));
  }
  std::vector<uint64_t> hashes(alike.size());
  parallel_for(std::ssize(alike), -1, [&](int64_t i) {
    hashes[static_cast<size_t>(i)] = content(alike[static_cast<size_t>(i)]);
  });
  std::vector<int64_t> originals(sizes.size());
  std::iota(originals.begin(), originals.end(), 0);
  std::map<std::pair<uint64_t, uint64_t>, int64_t> seen;  // by size and content
  for (size_t i = 0; i < alike.size(); ++i) {
    const auto at = static_cast<size_t>(alike[i]);
    if (hashes[i] == 0) continue;
    originals[at] = seen.emplace(std::pair(sizes[at], hashes[i]), alike[i]).first->second;
  }
  return originals;
}

Contradictions find_contradictions(std::span<const int64_t> originals,
                                   std::span<const int64_t> labels) {
  std::vector<bool> contradicted(originals.size());  // by original
  Contradictions found;
  for (size_t i = 0; i < originals.size(); ++i) {
    const auto original = static_cast<size_t>(originals[i]);
    if (labels[i] == labels[original]) continue;
    contradicted[original] = true;
    if (found.second == 0) found = {.first = originals[i], .second = static_cast<int64_t>(i)};
  }
  found.count = std::ranges::count_if(
      originals, [&](int64_t original) { return contradicted[static_cast<size_t>(original)]; });
  return found;
}

}  // namespace whisker
