#include "core/io/torch_checkpoint.h"

#include "core/io/torch_dicts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace whisker {
namespace {

// Keys of weights, the likeliest first; then those of averaged ones.
constexpr std::array<std::string_view, 10> weights_keys = {
    "state_dict", "model_state_dict", "model_state", "model",  "module",
    "net",        "network",          "weights",     "params", "model_weights"};
constexpr std::array<std::string_view, 9> averages_keys = {"state_dict_ema",
                                                           "model_ema_state_dict",
                                                           "model_state_dict_ema",
                                                           "ema_state_dict",
                                                           "model_ema",
                                                           "ema_model",
                                                           "ema",
                                                           "params_ema",
                                                           "swa_model"};

constexpr size_t most_named = 8;  // in a message

size_t rank_of(std::string_view key) {
  const auto* found = std::ranges::find(weights_keys, key);
  if (found != weights_keys.end()) return static_cast<size_t>(found - weights_keys.begin());
  const auto* average = std::ranges::find(averages_keys, key);
  return weights_keys.size() + static_cast<size_t>(average - averages_keys.begin());
}
constexpr size_t unranked = weights_keys.size() + averages_keys.size();

// "'a', 'b' and 3 more": only those that are shown are made, as there may be very many.
class Some {
 public:
  explicit Some(std::string_view separator = ", ") : separator_(separator) {}

  template <class Make>
  void add(const Make& make) {
    if (count_++ < most_named)
      text_ += fmt::format("{}{}", text_.empty() ? "" : separator_, make());
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return count_ <= most_named ? text_ : fmt::format("{} and {} more", text_, count_ - most_named);
  }

 private:
  std::string_view separator_;
  std::string text_;
  size_t count_ = 0;
};

class Checkpoint : private TorchDicts {
 public:
  Checkpoint(const TorchPickle& pickle, const std::string& file, MemoryBudget& budget)
      : TorchDicts(pickle, file, budget) {}

  TorchWeights find(std::string_view key) {
    uint32_t chosen = pickle_.root;
    std::string_view prefix = key;
    if (!holds_prefix(chosen, key)) {
      std::tie(chosen, prefix) = follow(chosen, key);
      if (steps_.empty()) {  // the key stands within what is chosen without it, or there is none
        std::tie(chosen, prefix) = follow(descend(chosen), key);
      }
    }
    charged_ = true;
    TorchWeights weights;
    size_t others = 0;  // of other prefixes
    each_tensor(chosen, [&](std::string name, size_t view) {
      if (!prefix.empty()) {
        if (!name.starts_with(prefix) || name.size() <= prefix.size() + 1 ||
            name[prefix.size()] != '.') {
          ++others;
          return;
        }
        name.erase(0, prefix.size() + 1);
      }
      weights.views.insert_or_assign(std::move(name), view);
    });
    if (weights.views.empty()) refuse(chosen, prefix);
    weights.network = network();
    weights.library = library(chosen);
    read_classes(chosen, weights);
    if (!prefix.empty()) path_ += fmt::format("{}{}", path_.empty() ? "" : ".", prefix);
    std::string note = what_was_left(chosen, weights.views.size(), others);
    if (!note.empty()) weights.notes.push_back(std::move(note));
    return weights;
  }

 private:
  // --- the choice

  struct Candidate {
    std::string_view key;
    uint32_t value;
    size_t tensors;
  };
  std::vector<Candidate> candidates_in(uint32_t dict) const {
    std::vector<Candidate> candidates;
    each_item(dict, [&](std::string_view key, uint32_t value) {
      const size_t tensors = is_of_training(key) ? 0 : count_tensors(value);
      if (tensors == 0) return;
      budget_.grow(candidates);
      candidates.push_back({key, value, tensors});
    });
    return candidates;
  }
  // From `dict` to the weights in it, without a key.
  uint32_t descend(uint32_t dict) {
    for (int depth = 0; depth < most_wrappers; ++depth) {
      if (depth > 0 && holds_tensors(dict)) break;
      const std::vector<Candidate> candidates = candidates_in(dict);
      const auto best = std::ranges::min_element(
          candidates, {}, [](const Candidate& one) { return rank_of(one.key); });
      const bool known = best != candidates.end() && rank_of(best->key) < unranked;
      if (!known && (holds_tensors(dict) || candidates.empty())) break;
      if (!known && candidates.size() > 1) refuse_to_choose(candidates);
      guessed_ = guessed_ || !known;
      step_into(dict, std::string(best->key));
      dict = best->value;
    }
    return dict;
  }
  [[noreturn]] void refuse_to_choose(const std::vector<Candidate>& candidates) const {
    Some readings(" or ");
    for (const Candidate& one : candidates) {
      readings.add([&] { return fmt::format("{} ({} tensors)", excerpt(one.key), one.tensors); });
    }
    fail(ErrorKind::checkpoint,
         "{}: its weights may be {}: {} says which. If they are parts of one network, save them "
         "together: torch.save(model.state_dict(), FILE).",
         file_, readings.text(), weights_key_option);
  }
  void step_into(uint32_t parent, std::string key) {
    path_ += (path_.empty() ? "" : ".") + key;
    steps_.emplace_back(parent, std::move(key));
  }

  // Follows as many words of `key` as are keys from `dict` on, the longest first; returns the rest
  // of it.
  std::pair<uint32_t, std::string_view> follow(uint32_t dict, std::string_view key) {
    while (!key.empty()) {
      std::string_view longest;
      uint32_t next = 0;
      each_item(dict, [&](std::string_view name, uint32_t value) {
        const bool whole = key == name || (key.starts_with(name) && key.size() > name.size() &&
                                           key[name.size()] == '.');
        if (!whole || !is_dict(value) || name.size() <= longest.size()) return;
        longest = name;
        next = value;
      });
      if (longest.empty()) break;
      step_into(dict, std::string(longest));
      dict = next;
      key.remove_prefix(std::min(longest.size() + 1, key.size()));
    }
    return {dict, key};
  }
  bool holds_prefix(uint32_t value, std::string_view prefix) const {
    bool any = false;
    each_tensor(value, [&](const std::string& name, size_t) {
      any = any || (name.starts_with(prefix) && name.substr(prefix.size()).starts_with('.'));
    });
    return any;
  }

  // --- classes

  // Names of classes beside the weights: a list, or numbers by names as torchvision's ImageFolder
  // has them.
  void read_classes(uint32_t chosen, TorchWeights& weights) {
    std::vector<uint32_t> dicts = {chosen};
    for (const auto& step : steps_) dicts.push_back(step.first);
    std::string from;  // the key of weights.classes
    for (const uint32_t dict : dicts) {
      for (const char* const key : {"classes", "class_names", "class_to_idx"}) {
        const auto found = item(dict, key);
        if (!found) continue;
        std::string problem;
        std::vector<std::string> names = names_in(*found, weights, problem);
        if (!problem.empty()) {
          weights.notes.push_back(fmt::format("{}: the names of classes in {} are left out: {}",
                                              printable(file_), excerpt(key), problem));
        }
        if (names.empty()) continue;
        if (from.empty()) {
          weights.notes.push_back(fmt::format("{}: the names of its {} classes are read from {}",
                                              printable(file_), names.size(), excerpt(key)));
          weights.classes = std::move(names);
          read_ = *found;
          from = key;
        }
        refuse_other_classes(weights.classes, from, names, key);
      }
    }
  }
  void refuse_other_classes(const std::vector<std::string>& classes, std::string_view from,
                            const std::vector<std::string>& others, std::string_view key) const {
    const auto [own, other] = std::ranges::mismatch(classes, others);
    if (others.empty() || own == classes.end() || other == others.end()) return;
    // Other names, such as 'tench' for 'n01440764', contradict nothing: another order does.
    std::vector<std::string> sorted = classes, other_sorted = others;
    std::ranges::sort(sorted);
    std::ranges::sort(other_sorted);
    if (sorted != other_sorted) return;
    fail(ErrorKind::checkpoint,
         "{}: {} and {} contradict each other: output {} is {} by the first, {} by the second. "
         "Save it with one of them.",
         file_, excerpt(from), excerpt(key), own - classes.begin(), excerpt(*own), excerpt(*other));
  }
  // None, and mostly a `problem`, where the value does not name the outputs.
  std::vector<std::string> names_in(uint32_t value, const TorchWeights& weights,
                                    std::string& problem) const {
    const TorchValue& found = pickle_.values[value];
    const auto items = pickle_.items_of(found);
    const bool numbered = found.kind == Kind::dict;
    if (!numbered && found.kind != Kind::list && found.kind != Kind::tuple) return {};
    const size_t count = numbered ? items.size() / 2 : items.size();
    if (count < 2) return {};
    if (!are_of_outputs(count, weights)) {
      problem = fmt::format("they are {}, and no tensor has as many rows", count);
      return {};
    }
    budget_.charge(count, sizeof(std::string));
    std::vector<std::string> names(count);
    for (size_t i = 0; i < names.size(); ++i) {
      const TorchValue& name = pickle_.values[items[numbered ? 2 * i : i]];
      size_t place = i;
      if (numbered) {
        const TorchValue& number = pickle_.values[items[2 * i + 1]];
        const bool valid = number.kind == Kind::integer && number.integer >= 0;
        place = valid ? static_cast<size_t>(number.integer) : names.size();
      }
      const bool plain = name.kind == Kind::text && !name.text.empty() &&
                         find_invalid_utf8(name.text) == name.text.npos;
      if (!plain || place >= names.size() || !names[place].empty()) {
        problem = plain ? fmt::format("their numbers are not 0 to {}, each once", count - 1)
                        : std::string("they are not all texts in UTF-8");
        return {};
      }
      budget_.charge(name.text.size());
      names[place] = name.text;
    }
    return names;
  }
  bool are_of_outputs(size_t count, const TorchWeights& weights) const {
    return std::ranges::any_of(weights.views, [&](const auto& named) {
      const TorchView& view = pickle_.views[named.second];
      if (view.other) return false;
      const auto shape = pickle_.items_of(view.shape);
      const int64_t rows = shape.empty() ? 0 : pickle_.values[shape[0]].integer;
      return rows == static_cast<int64_t>(count) || (rows == 1 && count == 2);
    });
  }

  // --- what is said

  [[noreturn]] void refuse(uint32_t chosen, std::string_view prefix) const {
    Some keys;
    each_item(steps_.empty() ? pickle_.root : chosen,
              [&](std::string_view key, uint32_t) { keys.add([&] { return excerpt(key); }); });
    const std::string got = keys.empty() ? "none" : "the keys " + keys.text();
    if (!prefix.empty()) {
      fail(
          ErrorKind::usage,
          "{}: --weights-key: expected a key, or the words before a dot in tensors' names, got {}; "
          "the file has {}.",
          file_, excerpt(prefix), got);
    }
    const TorchValue& root = pickle_.values[pickle_.root];
    if (root.kind == Kind::object) {
      fail(ErrorKind::checkpoint,
           "{}: expected a state_dict of named tensors, got an object of {}, which is not built. "
           "Save the weights alone: torch.save(model.state_dict(), FILE).",
           file_, excerpt(root.text));
    }
    fail(ErrorKind::checkpoint,
         "{}: expected a state_dict of named tensors, alone or under one of the keys {}, got {}. "
         "Save it with torch.save(model.state_dict(), FILE).",
         file_, fmt::join(weights_keys, ", "), got);
  }

  // The network's name, where the trainers of torchvision, timm and PyTorch's examples store it.
  std::string network() const {
    constexpr size_t most_bytes = 256;
    const auto text = [&](std::optional<uint32_t> dict, std::string_view key) -> std::string_view {
      const auto found = dict ? item(*dict, key) : std::nullopt;
      if (!found || pickle_.values[*found].kind != Kind::text) return {};
      return pickle_.values[*found].text;
    };
    std::string_view name = text(pickle_.root, "arch");
    if (name.empty()) {
      std::optional<uint32_t> arguments = item(pickle_.root, "args");
      if (arguments && pickle_.values[*arguments].kind == Kind::object) {
        const int64_t state = pickle_.values[*arguments].integer;  // a Namespace's attributes
        arguments = state == 0 ? std::nullopt : std::optional(static_cast<uint32_t>(state));
      }
      name = text(arguments, "model");
    }
    const bool plain = name.size() <= most_bytes && find_invalid_utf8(name) == name.npos;
    return plain ? std::string(name) : std::string();
  }

  // Networks of both libraries with equal tensors differ in modules that have none: a state_dict's
  // `_metadata` lists all of its modules. A module that was saved whole has a class.
  std::string library(uint32_t chosen) const {
    const TorchValue& value = pickle_.values[chosen];
    std::string found;
    if (value.kind == Kind::object) {
      for (const char* const package : {"timm", "torchvision"}) {
        if (value.text.substr(0, value.text.find('.')) == package) found = package;
      }
    } else if (value.kind == Kind::dict && value.integer != 0) {
      const auto modules = item(static_cast<uint32_t>(value.integer), "_metadata");
      each_item(modules.value_or(0), [&](std::string_view module, uint32_t) {
        const std::string_view own = module.substr(module.rfind('.') + 1);
        if (own == "global_pool") found = "timm";
        if (own == "avgpool" || own == "relu0") found = "torchvision";  // ResNets', DenseNets'
      });
    }
    return found;
  }

  // One line; nothing where all of the file is read.
  std::string what_was_left(uint32_t chosen, size_t count, size_t other_tensors) const {
    Some others;
    if (other_tensors > 0) others.add([&] { return fmt::format("{} others", other_tensors); });
    for (const auto& step : steps_) {
      each_item(step.first, [&](std::string_view name, uint32_t value) {
        if (name != step.second && value != read_)
          others.add([&] { return left_out(step.first, name, value); });
      });
    }
    if (!module_state(chosen)) {
      each_item(chosen, [&](std::string_view name, uint32_t value) {
        if (pickle_.values[value].kind != Kind::tensor && value != read_)
          others.add([&] { return excerpt(name); });
      });
    }
    std::set<std::string_view> types;
    for (const TorchValue& value : pickle_.values) {
      if (value.kind == Kind::object) types.insert(value.text);
    }
    if (others.empty() && types.empty() && !guessed_) return {};
    std::string note = fmt::format("{}: {} tensors", printable(file_), count);
    if (!path_.empty()) note += fmt::format(" of {}", excerpt(path_));
    note += " are read";
    if (!others.empty()) note += "; left out: " + others.text();
    if (types.empty()) return note;
    Some names;
    for (const std::string_view type : types) names.add([&] { return printable(type); });
    return fmt::format("{}; objects are not built: {}", note, names.text());
  }
  std::string left_out(uint32_t parent, std::string_view name, uint32_t value) const {
    const bool weights = !is_of_training(name) && is_dict(value);
    const size_t tensors = weights ? count_tensors(value) : 0;
    if (tensors == 0) return excerpt(name);
    return fmt::format("{} ({} tensors: --weights-key {})", excerpt(name), tensors,
                       printable(path_of(parent, name)));
  }
  std::string path_of(uint32_t parent, std::string_view name) const {
    std::string path;
    for (const auto& [dict, key] : steps_) {
      if (dict == parent) break;
      path += key + ".";
    }
    return path + std::string(name);
  }

  std::string path_;                                     // of keys to the weights
  std::vector<std::pair<uint32_t, std::string>> steps_;  // a dict and its key
  bool guessed_ = false;
  uint32_t read_ = 0;  // the value that named the classes; 0: none
};

}  // namespace

TorchWeights find_torch_weights(const TorchPickle& pickle, const std::string& key,
                                const std::string& file, MemoryBudget& budget) {
  return Checkpoint(pickle, file, budget).find(key);
}

}  // namespace whisker
