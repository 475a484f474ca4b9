#include "train/loop/rank_sums.h"

#include "core/backend/backend.h"
#include "core/backend/recurrent_operands.h"
#include "core/io/hash.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

Tensor host_tensor(const Shape& shape, DType dtype) {
  return empty(shape, {.dtype = dtype});
}

// Copies rows (axis 1) between `own`, a part, and `all`.
enum class Direction : uint8_t { gather, scatter };
void copy_rows(const Tensor& own, const Tensor& all, Partition part, Direction direction) {
  const int64_t rows = own.extent(1);
  const int64_t bytes = own.bytes() / std::max<int64_t>(1, own.extent(0) * rows);
  for (int64_t cell = 0; cell < own.extent(0); ++cell) {
    for (int64_t row = 0; row < rows; ++row) {
      char* const one = static_cast<char*>(own.raw()) + (cell * rows + row) * bytes;
      char* const other = static_cast<char*>(all.raw()) +
                          (cell * all.extent(1) + part.rank + row * part.world) * bytes;
      if (direction == Direction::gather) {
        std::memcpy(other, one, static_cast<size_t>(bytes));
      } else {
        std::memcpy(one, other, static_cast<size_t>(bytes));
      }
    }
  }
}

template <class Change>
CarriedStates each_tensor(const CarriedStates& states, Change change) {
  CarriedStates changed;
  for (const auto& [path, state] : states) {
    for (const auto member : {&RecurrentState::h, &RecurrentState::c}) {
      if ((state.*member).defined()) changed[path].*member = change(state.*member);
    }
  }
  return changed;
}

}  // namespace

StepState of_all_ranks(StepState own, RankGroup& ranks) {
  if (ranks.world() == 1) return own;
  const std::vector<StepState> all = ranks.gather(own);
  own.totals = {};
  int failed = -1;
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const StepState& one = all[static_cast<size_t>(rank)];
    own.totals.loss += one.totals.loss;
    own.totals.correct += one.totals.correct;
    own.totals.rows += one.totals.rows;
    if (failed < 0 && one.failure == StepFailure::loss) failed = rank;
  }
  if (failed < 0 && own.failure != StepFailure::none) failed = 0;
  if (failed >= 0 && failed != ranks.rank()) ranks.barrier();
  return own;
}

RankTimes compare_ranks(std::span<const RankSeconds> all) {
  const auto slowest = std::ranges::max_element(all, {}, &RankSeconds::worked);
  const double least = std::ranges::min_element(all, {}, &RankSeconds::waited)->waited;
  double others = -slowest->worked;
  for (const RankSeconds& one : all) others += one.worked;
  others /= static_cast<double>(all.size() - 1);
  return {.communication = least / std::max(slowest->worked + least, 1e-9),
          .slowest = static_cast<int>(slowest - all.begin()),
          .excess = slowest->worked / std::max(others, 1e-9) - 1};
}

void add_other_ranks(Metrics& metrics, RankGroup& ranks) {
  if (ranks.world() == 1) return;
  std::vector<double> own;
  metrics.visit([&](Count count) {
    std::visit([&](auto* number) { own.push_back(static_cast<double>(*number)); }, count);
  });
  const std::string_view bytes(reinterpret_cast<const char*>(own.data()),
                               own.size() * sizeof(double));
  const std::vector<std::string> all = ranks.all_gather(bytes);
  size_t at = 0;
  metrics.visit([&](Count count) {
    double sum = 0;
    for (const std::string& one : all) {
      double value = 0;
      std::memcpy(&value, one.data() + at, sizeof value);
      sum += value;
    }
    std::visit([&]<class T>(T* number) { *number = static_cast<T>(sum); }, count);
    at += sizeof(double);
  });
}

CarriedStates states_of_all_ranks(const CarriedStates& own, RankGroup& ranks) {
  if (ranks.world() == 1) return own;
  return each_tensor(own, [&](const Tensor& tensor) {
    const Tensor host = tensor.to(cpu_device);
    const std::vector<std::string> parts =
        ranks.all_gather({static_cast<const char*>(host.raw()), static_cast<size_t>(host.bytes())});
    int64_t rows = 0;
    const auto row_bytes = host.bytes() / host.extent(1);
    for (const std::string& part : parts) rows += std::ssize(part) / row_bytes;
    const Tensor all = host_tensor(host.shape().with(1, rows), host.dtype());
    for (int rank = 0; rank < ranks.world(); ++rank) {
      const std::string& bytes = parts[static_cast<size_t>(rank)];
      const Tensor part =
          host_tensor(host.shape().with(1, std::ssize(bytes) / row_bytes), host.dtype());
      std::memcpy(part.raw(), bytes.data(), bytes.size());
      copy_rows(part, all, {.rank = rank, .world = ranks.world()}, Direction::gather);
    }
    return all;
  });
}

CarriedStates states_of_rank(const CarriedStates& all, Partition part) {
  if (part.world == 1) return all;
  return each_tensor(all, [&](const Tensor& tensor) {
    const Tensor host = tensor.to(cpu_device);
    const Tensor own = host_tensor(host.shape().with(1, part.of(host.extent(1))), host.dtype());
    copy_rows(own, host, part, Direction::scatter);
    return own.to(tensor.device());
  });
}

uint64_t hash_of_weights(const Experiment& experiment) {
  Hash64 hash;
  const auto add = [&](const std::vector<float>& values) {
    hash.update(std::as_bytes(std::span(values)));
  };
  const ParameterArena& arena = *experiment.arena;
  for (const auto& parameter : arena.parameters()) {
    if (parameter->is_buffer()) continue;
    add(arena.read(*parameter));
    if (!parameter->trainable()) continue;
    for (const Optimizer::Moment& moment : experiment.optimizer->moments()) {
      add(arena.read(moment.flat, *parameter));
    }
    if (experiment.average) add(arena.read(experiment.average->flat(), *parameter));
  }
  return hash.value();
}

void start_from_rank_0(Experiment& experiment) {
  Communicator& ranks = *experiment.ranks;
  if (ranks.world() == 1) return;
  if (experiment.arena->count() > 0) {
    ranks.broadcast(experiment.arena->values());
    if (experiment.average) ranks.broadcast(experiment.average->flat());
  }
  experiment.arena->refresh();
  take_buffers_of_rank_0(experiment);
  const std::vector<uint64_t> hashes = ranks.group().gather(hash_of_weights(experiment));
  for (int rank = 1; rank < ranks.world(); ++rank) {
    if (hashes[static_cast<size_t>(rank)] == hashes[0]) continue;
    fail(ErrorKind::checkpoint,
         "rank {} does not start with rank 0's weights and optimizer state: hash {:016x}, expected "
         "{:016x}. All machines must read the same configuration, weights and run folder.",
         rank, hashes[static_cast<size_t>(rank)], hashes[0]);
  }
}

void take_buffers_of_rank_0(Experiment& experiment) {
  Communicator& ranks = *experiment.ranks;
  if (ranks.world() == 1) return;
  ranks.begin_together();
  for (const auto& parameter : experiment.arena->parameters()) {
    if (parameter->is_buffer()) ranks.broadcast(parameter->master());
  }
  ranks.end_together();
  experiment.arena->bump_epoch();
}

}  // namespace whisker
