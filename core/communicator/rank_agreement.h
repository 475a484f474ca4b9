// What ranks compare before they work together: two that do not run the same command on the same
// data would compute nonsense, or wait for each other for ever.
#pragma once

#include "core/communicator/rank_group.h"
#include "core/error.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Several texts, of any bytes, as one; and back.
std::string pack_texts(std::span<const std::string> texts);
std::vector<std::string> unpack_texts(std::string_view packed);
/// Collective: the texts of each rank, by rank.
std::vector<std::vector<std::string>> gather_texts(RankGroup& ranks,
                                                   std::span<const std::string> texts);

/// ("optimizer.lr", "0.001"), ("cat/1.jpg", "cat, 3,072 bytes").
struct Fact {
  std::string name, value;
};
using Facts = std::vector<Fact>;  // in an order that does not depend on the rank

struct Agreement {
  ErrorKind kind = ErrorKind::usage;
  std::string_view what;  ///< "configuration"
  /// What else may be done about it than making it the same; "": nothing.
  std::string_view remedy = "";
};

/// Collective. Throws, on every rank, unless `facts` are those of rank 0: the message names the
/// first rank and the first fact that differ.
void require_same(RankGroup& ranks, const Facts& facts, const Agreement& agreement);
/// require_same() for many facts, which `hash` stands for: only where hashes differ are they made.
void require_same(RankGroup& ranks, uint64_t hash, const std::function<Facts()>& facts,
                  const Agreement& agreement);

}  // namespace whisker
