// What a pickle's names and calls make: tensors by the names that torch_names.h knows, objects by
// all others. Nothing is called.
#pragma once

#include "core/io/pickle_stack.h"
#include "core/io/text.h"
#include "core/io/torch_names.h"

namespace whisker {

class PickleCalls : protected PickleStack {
 protected:
  static constexpr size_t most_tensors = 65'536;
  static constexpr size_t most_key_bytes = 255;
  static constexpr size_t most_axes = 64;

  using PickleStack::PickleStack;

  void push_name(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module, name);
    if (runs_code(full)) {
      fail(
          ErrorKind::checkpoint,
          "{}: expected tensors alone, got {}, which Python would import and may call. Nothing was "
          "executed. Save the weights alone, torch.save(model.state_dict(), FILE), or convert the "
          "file where you trust it: safetensors.torch.save_file(state_dict, "
          "'weights.safetensors').",
          file_, excerpt(full));
    }
    const auto [known, added] = pickle_.names.insert(full);
    if (added) budget_.charge(full.size() + sizeof(full) + node_bytes);
    push_new({.kind = Kind::name, .text = *known});
  }

  uint64_t count_of(uint32_t index, std::string_view expected) {
    const TorchValue& integer = value(index, Kind::integer, expected);
    if (integer.integer < 0 || !integer.text.empty()) damaged(fmt::format("expected {}", expected));
    return static_cast<uint64_t>(integer.integer);
  }
  std::span<const uint32_t> checked_extents(uint32_t index) {
    const auto items = pickle_.items_of(value(index, Kind::tuple, "a tuple of extents"));
    if (items.size() > most_axes) damaged("more than 64 axes");
    for (const uint32_t item : items) count_of(item, "extents of at least 0");
    return items;
  }

  // ('storage', torch.FloatStorage, key, device, elements); old files add a view, which is None.
  void push_storage() {
    const auto id =
        pickle_.items_of(value(pop(), Kind::tuple, "a persistent id as torch.save writes"));
    if (id.size() < 5 || value(id[0]).text != "storage" || (id.size() > 5 && id[5] != nothing)) {
      damaged("expected a persistent id as torch.save writes");
    }
    const std::string_view type = value(id[1], Kind::name, "a type of storage").text;
    const StorageType* known = find_storage_type(type);
    const std::string_view key = value(id[2], Kind::text, "a storage's key").text;
    if (!known || key.size() > most_key_bytes) damaged("expected a type of storage and a key");
    if (pickle_.storages.size() >= most_tensors) damaged("more than 65536 storages");
    budget_.grow(pickle_.storages);
    pickle_.storages.push_back({.key = key,
                                .type = type,
                                .dtype = known->dtype,
                                .element_bytes = known->element_bytes,
                                .elements = count_of(id[4], "a count of elements")});
    push_new({.kind = Kind::storage, .integer = std::ssize(pickle_.storages) - 1});
  }

  // (storage, offset, shape, strides, requires_grad, hooks, metadata); v3 has a type before the
  // metadata.
  void push_tensor(std::span<const uint32_t> arguments, bool v3) {
    if (arguments.size() < (v3 ? 7 : 4)) damaged("a tensor lacks its arguments");
    const TorchValue& storage = value(arguments[0], Kind::storage, "a tensor's storage");
    TorchView view{.storage = static_cast<size_t>(storage.integer),
                   .offset = count_of(arguments[1], "an offset of at least 0"),
                   .shape = arguments[2],
                   .strides = arguments[3]};
    if (checked_extents(view.shape).size() != checked_extents(view.strides).size()) {
      damaged("a tensor needs a stride for each axis");
    }
    if (v3) view.type = value(arguments[6], Kind::name, "a tensor's type").text;
    const size_t metadata = v3 ? 7 : 6;
    if (arguments.size() > metadata) view.negative = is_negative(arguments[metadata]);
    push_view(view);
  }
  void push_view(const TorchView& view) {
    if (pickle_.views.size() >= most_tensors) damaged("more than 65536 tensors");
    budget_.grow(pickle_.views);
    pickle_.views.push_back(view);
    push_new({.kind = Kind::tensor, .integer = std::ssize(pickle_.views) - 1});
  }
  // {'conj': False, 'neg': True}: what torch._utils.set_tensor_metadata would set.
  bool is_negative(uint32_t metadata) {
    const auto items = pickle_.items_of(metadata);
    bool negative = false;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (value(items[i]).text == "neg") negative = value(items[i + 1]).integer != 0;
    }
    return negative;
  }

  void push_object(std::string_view type) { push_new({.kind = Kind::object, .text = type}); }

  void call() {
    const uint32_t arguments = pop();
    call(pop(), arguments);
  }
  void call(uint32_t callee, uint32_t tuple) {
    const TorchValue& called = value(callee);
    const auto arguments = pickle_.items_of(value(tuple, Kind::tuple, "arguments"));
    if (called.kind != Kind::name && called.kind != Kind::object) damaged("a call of no name");
    switch (called.kind == Kind::name ? maker_of(called.text) : Maker::object) {
      case Maker::tensor:
        return push_tensor(arguments, false);
      case Maker::tensor_v3:
        return push_tensor(arguments, true);
      case Maker::parameter:
        if (arguments.empty() || value(arguments[0]).kind != Kind::tensor) break;
        return push(arguments[0]);
      case Maker::subclass:  // (function, type, its arguments, attributes)
        if (arguments.size() < 3 || maker_of(value(arguments[0]).text) == Maker::subclass) break;
        return call(arguments[0], arguments[2]);
      case Maker::dict:
        if (arguments.size() != 1) return push_new({.kind = Kind::dict});
        return push_dict(arguments[0]);
      case Maker::size:
        if (arguments.empty()) return push(empty_tuple);
        checked_extents(arguments[0]);
        return push(arguments[0]);
      case Maker::set:
        return push_list(arguments.empty() ? arguments : pickle_.items_of(arguments[0]));
      case Maker::bytes:
        return arguments.empty() ? push_new({.kind = Kind::text}) : push(arguments[0]);
      case Maker::other_tensor:
        return push_view({.other = find_other_tensor(called.text)});
      case Maker::object:
        return push_object(called.text);
    }
    damaged(fmt::format("a call of {} without its arguments", called.text));
  }
  // A list of pairs, as Python 2 has it.
  void push_dict(uint32_t pairs) {
    TorchValue dict{.kind = Kind::dict};
    for (const uint32_t pair : pickle_.items_of(pairs)) {
      const auto items = pickle_.items_of(pair);
      if (items.size() == 2) add_items(dict, items);
    }
    push_new(dict);
  }

  // Attributes: of a dict as the _metadata of a state_dict.
  void build() {
    const uint32_t state = pop();
    TorchValue& target = value(top());
    if (target.kind == Kind::object || target.kind == Kind::dict) target.integer = state;
  }
};

}  // namespace whisker
