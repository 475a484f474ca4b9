#include "layers/weights/difference_table.h"

#include "core/io/text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace whisker {
namespace {

constexpr size_t most_rows = 10'000;
constexpr size_t most_nearest = 2000;  // rows whose nearest names are looked for

// "conv1" and ".weight".
std::pair<std::string_view, std::string_view> split_last(std::string_view name) {
  const size_t dot = std::min(name.rfind('.'), name.size());
  return {name.substr(0, dot), name.substr(dot)};
}

// The name of another kind that this one may be a slip of: the same part of a layer, of the same
// shape. Missing names are compared with the unexpected ones and the reverse.
const TensorDifference* nearest_to(const TensorDifference& one,
                                   const std::vector<TensorDifference>& all) {
  const auto [layer, part] = split_last(one.name);
  std::vector<std::string> layers;
  std::vector<const TensorDifference*> candidates;
  for (const TensorDifference& other : all) {
    const auto [other_layer, other_part] = split_last(other.name);
    if (!other.alone || std::string_view(other.kind) == one.kind || other_part != part ||
        other.shape != one.shape) {
      continue;
    }
    layers.emplace_back(other_layer);
    candidates.push_back(&other);
  }
  const std::string nearest = nearest_name(layer, layers);
  const auto found = std::ranges::find(layers, nearest);
  return found == layers.end() ? nullptr : candidates[static_cast<size_t>(found - layers.begin())];
}

}  // namespace

void fail_with_table(const SafetensorsFile& file, const std::vector<TensorDifference>& differences,
                     bool only_head) {
  const auto count = [&](std::string_view kind) {
    return std::count_if(differences.begin(), differences.end(),
                         [&](const TensorDifference& d) { return d.kind == kind; });
  };
  size_t width = 0;
  for (const TensorDifference& d : differences) {
    width = std::max(width, std::min<size_t>(d.name.size(), 60));
  }
  const bool seek = differences.size() <= most_nearest;
  std::string table;
  for (size_t i = 0; i < std::min(differences.size(), most_rows); ++i) {
    const TensorDifference& d = differences[i];
    table += fmt::format("\n  {:<10}  {:<{}}  {}", d.kind, printable(d.name), width, d.detail);
    const TensorDifference* nearest = seek && d.alone ? nearest_to(d, differences) : nullptr;
    if (nearest && nearest_to(*nearest, differences) == &d) {
      table += fmt::format("  nearest: {}", printable(nearest->name));
    }
  }
  if (differences.size() > most_rows) {
    table += fmt::format("\n  and {} more", differences.size() - most_rows);
  }
  fail(ErrorKind::checkpoint,
       "{}: does not fit the model: {} missing, {} unexpected, {} misshaped; nothing was loaded. "
       "{}{}",
       file.name(), count("missing"), count("unexpected"), count("misshaped"),
       only_head
           ? "They are of another number of classes: init.new_head=true trains a new last layer."
           : "Check model; init.skip takes patterns of names to leave out.",
       MessageLines{table});
}

}  // namespace whisker
