// The dicts and modules among a pickle's values, and the tensors that they hold under names.
#pragma once

#include "core/io/text.h"
#include "core/io/torch_pickle.h"
#include "core/io/utf8.h"

#include <algorithm>

namespace whisker {

class TorchDicts {
 protected:
  using Kind = TorchValue::Kind;

  TorchDicts(const TorchPickle& pickle, const std::string& file, MemoryBudget& budget)
      : pickle_(pickle), file_(file), budget_(budget) {}

  // Keys of what training goes on with; their tensors are no weights.
  static bool is_of_training(std::string_view key) {
    return key.find("optim") != key.npos || key.find("sched") != key.npos || key == "callbacks" ||
           key == "loops" || key == "scaler";
  }

  template <class Fn>
  void each_item(uint32_t value, const Fn& fn) const {
    const TorchValue& dict = pickle_.values[value];
    if (dict.kind != Kind::dict && dict.kind != Kind::object) return;
    const auto items = pickle_.items_of(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const TorchValue& key = pickle_.values[items[i]];
      if (key.kind == Kind::text) fn(key.text, items[i + 1]);
    }
  }
  std::optional<uint32_t> item(uint32_t dict, std::string_view key) const {
    std::optional<uint32_t> found;
    each_item(dict, [&](std::string_view name, uint32_t value) {
      if (name == key) found = value;
    });
    return found;
  }
  // The attributes of an object that is a torch.nn.Module.
  std::optional<uint32_t> module_state(uint32_t value) const {
    const TorchValue& object = pickle_.values[value];
    if (object.kind != Kind::object || object.integer == 0) return std::nullopt;
    const auto state = static_cast<uint32_t>(object.integer);
    const bool module = item(state, "_parameters") && item(state, "_modules");
    return module ? std::optional(state) : std::nullopt;
  }

  // fn(name, index of the view) for the tensors that a state_dict of `value` holds.
  template <class Fn>
  void each_tensor(uint32_t value, const Fn& fn, const std::string& prefix = "",
                   int depth = 0) const {
    budget_.charge(visit_bytes);
    if (const auto state = module_state(value); state && depth < most_depth) {
      const auto unsaved =
          pickle_.items_of(item(*state, "_non_persistent_buffers_set").value_or(0));
      for (const char* kind : {"_parameters", "_buffers"}) {
        each_item(item(*state, kind).value_or(0), [&](std::string_view name, uint32_t tensor) {
          const bool saved = std::ranges::none_of(
              unsaved, [&](uint32_t other) { return pickle_.values[other].text == name; });
          if (saved) add(prefix, name, tensor, fn);
        });
      }
      each_item(*item(*state, "_modules"), [&](std::string_view name, uint32_t module) {
        if (prefix.size() > most_name_bytes) return;
        each_tensor(module, fn, fmt::format("{}{}.", prefix, name), depth + 1);
      });
    } else if (depth == 0) {
      each_item(value, [&](std::string_view name, uint32_t tensor) { add("", name, tensor, fn); });
    }
  }
  template <class Fn>
  void add(const std::string& prefix, std::string_view name, uint32_t tensor, const Fn& fn) const {
    constexpr uint64_t tensor_bytes = 256;  // of what is made of it
    if (pickle_.values[tensor].kind != Kind::tensor) return;
    const size_t bytes = prefix.size() + name.size();
    if (bytes > most_name_bytes) {
      fail(ErrorKind::checkpoint, "{}: expected tensor names of at most {} bytes, got {}.", file_,
           most_name_bytes, bytes);
    }
    if (find_invalid_utf8(name) != std::string_view::npos) {
      fail(ErrorKind::checkpoint, "{}: expected tensor names in UTF-8, got {}.", file_,
           excerpt(name));
    }
    const auto view = static_cast<size_t>(pickle_.values[tensor].integer);
    const size_t axes = pickle_.items_of(pickle_.views[view].shape).size();
    budget_.charge(charged_ ? tensor_bytes + 2 * bytes + axes * sizeof(uint64_t) : 1);
    fn(fmt::format("{}{}", prefix, name), view);
  }
  // Tensors in `value`, or in dicts within; 0 where none has an axis, as the best accuracy so far.
  size_t count_tensors(uint32_t value, int depth = 0) const {
    size_t count = 0;
    bool scalars = true;
    each_tensor(value, [&](const std::string&, size_t view) {
      ++count;
      const TorchView& found = pickle_.views[view];
      scalars = scalars && !found.other && pickle_.items_of(found.shape).empty();
    });
    if (scalars) count = 0;
    if (count > 0 || depth == most_wrappers) return count;
    each_item(value, [&](std::string_view key, uint32_t inner) {
      if (!is_of_training(key)) count += count_tensors(inner, depth + 1);
    });
    return count;
  }
  bool holds_tensors(uint32_t value) const {
    bool any = false;
    each_tensor(value, [&](const std::string&, size_t) { any = true; });
    return any;
  }
  bool is_dict(uint32_t value) const {
    return pickle_.values[value].kind == Kind::dict || holds_tensors(value);
  }

  static constexpr size_t most_name_bytes = 4096;
  static constexpr int most_wrappers = 8;  // dicts in dicts
  static constexpr int most_depth = 64;    // of modules in modules
  static constexpr uint64_t visit_bytes =
      64;  // what a visited value is charged: modules may form cycles

  const TorchPickle& pickle_;
  const std::string& file_;
  MemoryBudget& budget_;
  bool charged_ = false;  // what each_tensor finds is kept
};

}  // namespace whisker
