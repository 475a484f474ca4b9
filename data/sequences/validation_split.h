// Chooses the examples for validation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Whether each example is for validation: `fraction` of each class, rounded, at least one example
/// and never all, chosen by `seed`; the one example of a class trains. Labels are positions in
/// `classes`. Throws usage unless 0 < fraction < 1, data where no class has two examples.
///
/// `originals`: for each example the first one of equal content, from find_copies(); equal examples
/// stay on one side, whatever their labels. Empty: no two are equal. Throws data for a class that
/// cannot be divided then.
std::vector<bool> choose_validation(std::span<const int64_t> labels,
                                    std::span<const std::string> classes, double fraction,
                                    uint64_t seed, std::span<const int64_t> originals = {});

/// The first example of equal content for each example, or itself. `content` hashes example i (0:
/// unreadable, equal to no other); several threads call it, only for examples of equal size.
std::vector<int64_t> find_copies(std::span<const uint64_t> sizes,
                                 const std::function<uint64_t(int64_t)>& content);

/// Examples of equal content that have different labels.
struct Contradictions {
  int64_t count = 0;              ///< all that another one contradicts
  int64_t first = 0, second = 0;  ///< a pair
};
/// `originals` from find_copies().
Contradictions find_contradictions(std::span<const int64_t> originals,
                                   std::span<const int64_t> labels);

}  // namespace whisker
