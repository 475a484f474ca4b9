// A command's inputs divided among ranks, and their results in the order of one rank.
#pragma once

#include "core/communicator/rank_agreement.h"

#include <functional>
#include <string>
#include <vector>

namespace whisker {

/// Each round every rank takes a block of inputs, rank 0 the first one, and rank 0 reports the
/// round's results. Blocks are those that one rank would take, one after another.
class RankRounds {
 public:
  /// Inputs begin to end - 1.
  struct Block {
    size_t begin = 0, end = 0;
    size_t size() const { return end - begin; }
  };
  /// `count` inputs; `report` is called on rank 0. What all ranks exchange at a time has at most
  /// `most_bytes`, or a result of each: a heat map is a whole image.
  RankRounds(RankGroup& ranks, size_t count, size_t block,
             std::function<void(const std::string&)> report, size_t most_bytes = size_t{64} << 20);

  /// This rank's next block, once the round before is reported; of no inputs after the last.
  /// Collective, as finish() is.
  Block next();
  /// A result of the block.
  void add(std::string result) { own_.push_back(std::move(result)); }
  /// After the last block.
  void finish();

 private:
  void report_round();

  RankGroup& ranks_;
  size_t count_, block_, rounds_, most_bytes_;
  std::function<void(const std::string&)> report_;
  size_t begun_ = 0, reported_ = 0;  // rounds
  std::vector<std::string> own_;
  std::vector<std::vector<std::string>> all_;  // of a round, by rank; on rank 0
};

}  // namespace whisker
