// Chooses the algorithm of each request once and keeps it compiled.
//
// Note [Choosing an algorithm]
// The table's choice is taken where there is one and it fits into memory; else the fastest of the
// candidates by timing, which the table keeps. On a CPU the first call of a request decides. On a
// GPU the first call takes what the library proposes first, and a request that comes again is timed
// while that may still pay in this run. Where memory is short of timing some candidate, the fastest
// of the others serves in this run and the table stays as it is. What computes a request in several
// steps is a candidate like any other. A deterministic run times nothing, and its choices do not
// depend on free memory.
#pragma once

#include "core/backend/autotune_table.h"
#include "core/backend/geometry.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace whisker {

/// FNV-1a over 64-bit words: integers, enums and truth values.
class WordHash {
 public:
  template <class... Words>
  WordHash& add(Words... words) {
    ((hash_ = (hash_ ^ static_cast<uint64_t>(words)) * 0x100000001b3ull), ...);
    return *this;
  }
  WordHash& add(const Conv2dGeometry& g) {
    return add(g.n, g.h, g.w, g.c, g.c_out, g.kernel_h, g.kernel_w, g.stride_h, g.stride_w,
               g.pad_top, g.pad_left, g.dilation_h, g.dilation_w, g.groups, g.h_out, g.w_out,
               g.bias, g.activation.kind, g.dtype);
  }
  size_t value() const { return static_cast<size_t>(hash_); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

/// Hashes requests that have a method hash().
struct RequestHash {
  size_t operator()(const auto& request) const { return request.hash(); }
};

/// A Request has hash(), == and describe(), its key in the table; an Algorithm has name().
template <class Request, class Algorithm>
class Autotuner {
 public:
  struct Choice {
    std::shared_ptr<Algorithm> algorithm = nullptr;  ///< null: nothing computes the request
    bool settled = false;                            ///< final in this run
    bool lacks_memory = false;                       ///< memory was short of another candidate
  };

  /// A tuner of algorithms that are not timed.
  Autotuner() = default;
  /// `kind` is one of the table's, which outlives this.
  Autotuner(AutotuneTable& table, std::string kind) : table_(&table), kind_(std::move(kind)) {}

  /// Null where there is none yet. References to choices stay valid.
  Choice* find(const Request& request) {
    const auto found = choices_.find(request);
    return found == choices_.end() ? nullptr : &found->second;
  }
  Choice& add(const Request& request, Choice choice) {
    return choices_.insert_or_assign(request, std::move(choice)).first->second;
  }
  /// The name of the table's choice.
  std::optional<std::string> stored(const Request& request) const {
    return table_->find(kind_, request.describe());
  }

  /// Settles on the fastest of the candidates, stores its name, and returns it; null where none
  /// works. propose(consider) names the candidates: consider(name, make) makes one, unless it was
  /// considered before, and returns the shortest time so far. milliseconds(algorithm, hopeless)
  /// may stop beyond `hopeless`. The fastest is not chosen where fits(algorithm) is false. An
  /// error of kind device is a failure of the table's, unless it is Unsupported. Throws OutOfMemory
  /// where memory did not suffice to time any.
  template <class Propose, class Milliseconds, class Fits>
  Choice fastest(const Request& request, const Propose& propose, const Milliseconds& milliseconds,
                 const Fits& fits) {
    Choice best{.settled = true};
    float least = std::numeric_limits<float>::infinity();
    std::optional<OutOfMemory> shortage;
    std::set<std::string> considered;
    propose([&](const std::string& name, const auto& make) {
      if (!considered.insert(name).second) return least;
      try {
        std::shared_ptr<Algorithm> candidate = make();
        const float time = candidate ? milliseconds(*candidate, least) : least;
        if (time < least) {
          least = time;
          best.algorithm = std::move(candidate);
        }
      } catch (const OutOfMemory& error) {
        shortage = error;
      } catch (const Unsupported&) {
        // The others are considered.
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::device) throw;
        table_->add_failure(fmt::format("autotuner: {}: '{}' failed and is not used: {}",
                                        request.describe(), name, error.what()));
      }
      return least;
    });
    if (!best.algorithm && shortage) throw *shortage;
    if (!best.algorithm || !fits(*best.algorithm)) return {};
    best.lacks_memory = shortage.has_value();
    if (!shortage) table_->set(kind_, request.describe(), best.algorithm->name());
    return best;
  }

  /// Forgets all choices: after a change of options or of the table.
  void clear() { choices_.clear(); }
  /// Forgets those for which memory was short: after a change of its limit.
  void forget_short_of_memory() {
    std::erase_if(choices_, [](const auto& entry) { return entry.second.lacks_memory; });
  }

 private:
  AutotuneTable* table_ = nullptr;
  std::string kind_;
  std::unordered_map<Request, Choice, RequestHash> choices_;
};

}  // namespace whisker
