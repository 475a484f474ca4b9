#include "train/model/norm_batches.h"

#include "layers/batch_norm.h"
#include "layers/memory_plan.h"

#include <algorithm>

namespace whisker {
namespace {

bool learns_statistics(const Module& module) {
  const auto* const norm = dynamic_cast<const BatchNorm*>(&module);
  return norm && norm->uses_batch({.training = true});
}

bool any_learns_statistics(const Module& module) {
  return learns_statistics(module) ||
         std::ranges::any_of(module.children(), [](const Module::Child& child) {
           return any_learns_statistics(*child.module);
         });
}

// The fewest rows, those of the last rank, whose part is the smallest; a rank without rows computes
// nothing.
int64_t fewest(int64_t rows, const RunBatches& batches) {
  if (batches.sync_norms) return rows;
  return rows < batches.world ? std::min<int64_t>(rows, 1) : rows / batches.world;
}

bool accepted(const RunBatches& batches) {
  return batches.fewest_rows() != 1 && batches.fewest_rows_of_last() != 1;
}

// The nearest one that works; the larger of two.
int64_t nearest_accepted(RunBatches batches) {
  const int64_t given = batches.batch_size;
  for (int64_t distance = 1; distance <= std::max(given, batches.examples); ++distance) {
    for (const int64_t size : {given + distance, given - distance}) {
      batches.batch_size = size;
      if (size >= batches.world && size <= std::max(given, batches.examples) && accepted(batches)) {
        return size;
      }
    }
  }
  return 0;
}

}  // namespace

int64_t RunBatches::fewest_rows() const {
  return examples >= batch_size ? fewest(batch_size, *this) : 0;
}

int64_t RunBatches::fewest_rows_of_last() const {
  return drop_last ? 0 : fewest(examples % batch_size, *this);
}

bool has_batch_statistics(const Model& model) {
  return any_learns_statistics(*model.net);
}

std::string norm_of_one_value(const Model& model) {
  const MemoryPlan plan = MemoryPlan::of(*model.net, model.input.with(model.batch_axis, 1));
  for (const PlannedOperator& op : plan.operators()) {
    const Shape& x = plan.shape(op.inputs.front());
    if (learns_statistics(*op.layer) && x.count() == x[-1]) return op.layer->path();
  }
  return "";
}

void check_norm_batches(const Model& model, const RunBatches& batches, std::string_view examples) {
  if (accepted(batches)) return;
  const std::string norm = norm_of_one_value(model);
  if (norm.empty()) return;
  const bool first = batches.fewest_rows() == 1;
  const std::string found =
      first ? fmt::format("a batch of {}", batches.batch_size)
            : fmt::format("the last batch of an epoch, of {} ({} training {} in batches of {})",
                          batches.examples % batches.batch_size, batches.examples, examples,
                          batches.batch_size);
  std::string remedy;
  if (!first) remedy = "train.drop_last=true";
  if (const int64_t size = nearest_accepted(batches); size > 0) {
    remedy += fmt::format("{}train.batch_size={}", remedy.empty() ? "" : " or ", size);
  }
  if (batches.world > 1 && !batches.sync_norms) {
    remedy += fmt::format("{}train.sync_batch_norm=true", remedy.empty() ? "" : " or ");
  }
  fail(ErrorKind::usage,
       "train.batch_size: expected at least 2 values per channel for batch_norm '{}', got 1 in "
       "{}{}. "
       "Use {}.",
       norm, found,
       batches.world > 1 ? fmt::format(" divided among {} ranks", batches.world) : std::string(),
       remedy.empty() ? "group_norm or layer_norm in its place" : remedy);
}

int64_t accepted_batch_size(const Model& model, RunBatches batches) {
  const int64_t given = batches.batch_size;
  if (accepted(batches) || norm_of_one_value(model).empty()) return given;
  for (; batches.batch_size > batches.world; --batches.batch_size) {
    if (accepted(batches)) return batches.batch_size;
  }
  return given;
}

}  // namespace whisker
