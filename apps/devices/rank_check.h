// `whisker devices --check` of several ranks: how they are linked, how fast they add up, and
// whether all get the same sums, which are right.
#pragma once

#include "core/communicator/communicator.h"
#include "core/io/json.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct CheckedRank {
  std::string host;
  std::string device;  ///< "cuda:0"
  std::string name;    ///< of its GPU; "" for a CPU
  std::string bus_id;  ///< likewise
};

/// Between two ranks.
struct RankLink {
  int from = 0, to = 0;
  std::string link;       ///< "NVLink", "PCIe"; "" for one that is not known
  std::string transport;  ///< "peer to peer", "host memory", "network"
};

/// An all-reduce of f32: the fastest of several, on the slowest rank.
struct ReduceTiming {
  int64_t bytes = 0;
  double seconds = 0;
  double error = 0;                   ///< largest |got - sum in f64| / largest |sum|
  std::vector<uint64_t> hashes = {};  ///< of each rank's sums

  bool same() const;
  /// Bytes a second through each link of a ring: bytes / seconds 2 (ranks - 1) / ranks.
  double bus_bandwidth() const;
};

struct RankCheck {
  std::string library;  ///< "NCCL 2.27.3"
  std::vector<CheckedRank> ranks;
  std::vector<RankLink> links;
  std::vector<ReduceTiming> reduces;
};

/// Collective.
RankCheck check_ranks(Communicator& ranks, Device device);

std::string to_text(const RankCheck& check);
void write(JsonWriter& json, const RankCheck& check);
/// Throws device when a sum is wrong or differs from rank to rank.
void fail_unless_right(const RankCheck& check);

}  // namespace whisker
