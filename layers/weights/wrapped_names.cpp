#include "layers/weights/wrapped_names.h"

#include "layers/weights/tensor_names.h"

#include <algorithm>
#include <map>

namespace whisker {
namespace {

constexpr int most_words = 4;

// The words of at least a third of the names: "model.", "model.backbone.", ...
std::vector<std::string> prefixes_of(std::span<const std::string> names) {
  std::map<std::string_view, size_t> counts;
  for (const std::string& name : names) {
    size_t end = 0;
    for (int word = 0; word < most_words; ++word) {
      end = name.find('.', end);
      if (end == std::string::npos) break;
      ++end;
      ++counts[std::string_view(name).substr(0, end)];
    }
  }
  std::vector<std::string> prefixes;
  for (const auto& [prefix, count] : counts) {
    if (3 * count >= names.size()) prefixes.emplace_back(prefix);
  }
  return prefixes;
}

}  // namespace

bool is_counter(std::string_view name) {
  return name.ends_with("num_batches_tracked") || is_average_count(name);
}

bool is_average_count(std::string_view name) {
  return name == "n_averaged";
}

std::vector<std::string> without_prefix(std::span<const std::string> names,
                                        const std::string& prefix) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    result.push_back(name.starts_with(prefix) ? bare_tensor_name(name.substr(prefix.size())) : "");
  }
  return result;
}

UnwrappedNames unwrapped_names(std::span<const std::string> names,
                               const std::function<bool(std::string_view)>& wanted) {
  const auto known = [&](std::string_view name) { return !name.empty() && wanted(name); };
  UnwrappedNames best{.names = translated_names(names, wanted), .prefix = ""};
  int64_t most = std::ranges::count_if(best.names, known);
  if (most == std::ranges::count_if(names, std::not_fn(is_counter))) return best;
  UnwrappedNames plain = best;
  std::vector<std::string> as_good;
  for (const std::string& prefix : prefixes_of(names)) {
    UnwrappedNames other{.names = translated_names(without_prefix(names, prefix), known),
                         .prefix = prefix};
    const int64_t count = std::ranges::count_if(other.names, known);
    if (count > most) {
      as_good.clear();
      most = count;
      best = std::move(other);
    }
    if (count == most && !best.prefix.empty()) as_good.push_back(prefix);
  }
  if (as_good.size() < 2) return best;
  plain.tied = std::move(as_good);
  plain.tied_names = most;
  return plain;
}

bool may_hold(std::span<const std::string> names, int64_t count) {
  const auto holds = [&](const std::string& prefix) {
    return count == std::ranges::count_if(names, [&](const std::string& name) {
             return name.starts_with(prefix) && !is_counter(name);
           });
  };
  return holds("") || std::ranges::any_of(prefixes_of(names), holds);
}

}  // namespace whisker
