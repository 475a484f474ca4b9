// A stack machine over the stream. A tensor is made by names that are known here; other calls make
// objects.
#include "core/io/torch_pickle.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/io/torch_names.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace whisker {
namespace {

constexpr size_t most_bytes = 64 << 20;
constexpr size_t most_tensors = 65'536;
constexpr size_t most_key_bytes = 255;
constexpr size_t most_axes = 64;
constexpr uint64_t node_bytes = 64;  // of the lists of values beside their elements

using Kind = TorchValue::Kind;

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file, MemoryBudget& budget)
      : bytes_(bytes.first(std::min(bytes.size(), most_bytes))), file_(file), budget_(budget) {
    for (const Kind kind : {Kind::none, Kind::boolean, Kind::boolean, Kind::number, Kind::tuple}) {
      push_new({.kind = kind});
    }
    value(yes).integer = 1;
    stack_.clear();
  }

  TorchPickle run() {
    while (!done_) step();
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
  static constexpr uint32_t nothing = 0, no = 1, yes = 2, number = 3, empty_tuple = 4;

  [[noreturn]] void damaged(std::string_view what) const {
    fail(ErrorKind::checkpoint, "{}: a damaged pickle: {} at byte {}.", file_, what, at_);
  }

  // --- bytes

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      damaged(bytes_.size() == most_bytes ? "more than 64 MiB" : "it is cut short");
    }
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text(uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string_view line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    const std::string_view result = text(static_cast<uint64_t>(end - rest.begin()));
    take(1);
    return result;
  }

  // --- the stack

  void push(uint32_t value) {
    budget_.grow(stack_);
    stack_.push_back(value);
  }
  void push_new(const TorchValue& value) {
    budget_.charge(sizeof(value));
    pickle_.values.push_back(value);
    push(static_cast<uint32_t>(pickle_.values.size() - 1));
  }
  uint32_t top() const {
    if (stack_.size() <= floor()) damaged("an opcode lacks its operands");
    return stack_.back();
  }
  uint32_t pop() {
    const uint32_t value = top();
    stack_.pop_back();
    return value;
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void mark() {
    budget_.grow(marks_);
    marks_.push_back(stack_.size());
  }
  // What was pushed since the last mark; valid until the next of these.
  std::span<const uint32_t> pop_marked() {
    if (marks_.empty()) damaged("an opcode lacks its mark");
    const size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return pop_last(count);
  }
  std::span<const uint32_t> pop_last(size_t count) {
    if (stack_.size() < floor() + count) damaged("an opcode lacks its operands");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    popped_.assign(first, stack_.end());
    stack_.erase(first, stack_.end());
    return popped_;
  }
  TorchValue& value(uint32_t index) { return pickle_.values[index]; }
  TorchValue& value(uint32_t index, Kind kind, std::string_view expected) {
    TorchValue& found = pickle_.values[index];
    if (found.kind != kind) damaged(fmt::format("expected {}", expected));
    return found;
  }

  void add_items(TorchValue& target, std::span<const uint32_t> items) {
    if (items.empty()) return;
    if (target.items == 0) {
      budget_.charge(node_bytes);
      pickle_.lists.emplace_back();
      target.items = static_cast<uint32_t>(pickle_.lists.size());
    }
    std::vector<uint32_t>& list = pickle_.lists[target.items - 1];
    for (const uint32_t item : items) {
      budget_.grow(list);
      list.push_back(item);
    }
  }
  void push_tuple(std::span<const uint32_t> items) {
    TorchValue tuple{.kind = Kind::tuple};
    add_items(tuple, items);
    push_new(tuple);
  }
  void push_list(std::span<const uint32_t> items) {
    TorchValue list{.kind = Kind::list};
    add_items(list, items);
    push_new(list);
  }
  // What an object that is a list would hold is of no use.
  void append(uint32_t index, std::span<const uint32_t> items) {
    if (value(index).kind != Kind::object) add_items(value(index, Kind::list, "a list"), items);
  }
  void set_items(uint32_t index, std::span<const uint32_t> items) {
    const bool object = value(index).kind == Kind::object;
    TorchValue& target = object ? value(index) : value(index, Kind::dict, "a dict");
    if (items.size() % 2 != 0) damaged("a key lacks its value");
    add_items(target, items);
  }
  void push_integer(uint64_t bytes) {
    TorchValue integer{.kind = Kind::integer};
    if (bytes > sizeof(integer.integer)) {
      integer.text = text(bytes);
    } else if (bytes > 0) {
      const auto taken = take(bytes);
      const bool negative = (taken.back() & std::byte{0x80}) != std::byte{0};
      integer.integer = negative ? -1 : 0;
      std::memcpy(&integer.integer, taken.data(), bytes);
    }
    push_new(integer);
  }
  void push_text(uint64_t bytes) { push_new({.kind = Kind::text, .text = text(bytes)}); }

  // Python numbers what it remembers in turn.
  void remember(uint32_t index) {
    constexpr uint32_t most_skipped = 1024;
    if (index > memo_.size() + most_skipped) damaged("it numbers its values out of turn");
    const uint32_t remembered = top();
    while (memo_.size() <= index) {
      budget_.grow(memo_);
      memo_.push_back(unknown);
    }
    memo_[index] = remembered;
  }
  void recall(uint32_t index) {
    if (index >= memo_.size() || memo_[index] == unknown) {
      damaged("it refers to a value that it lacks");
    }
    push(memo_[index]);
  }

  // --- names and what they make

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
    if (pickle_.views.size() >= most_tensors) damaged("more than 65536 tensors");
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
      case Maker::object:
        return push_object(called.text);
    }
    damaged(fmt::format("a call of {} without its arguments", called.text));
  }
  // Of Python 2: a list of pairs.
  void push_dict(uint32_t pairs) {
    TorchValue dict{.kind = Kind::dict};
    for (const uint32_t pair : pickle_.items_of(pairs)) {
      const auto items = pickle_.items_of(pair);
      if (items.size() == 2) add_items(dict, items);
    }
    push_new(dict);
  }

  // Attributes: of a dict as the _metadata of a state_dict, which is of no use.
  void build() {
    const uint32_t state = pop();
    TorchValue& target = value(top());
    if (target.kind == Kind::object) target.integer = state;
  }

  // --- opcodes

  void step() {
    const auto opcode = read<uint8_t>();
    switch (opcode) {
      case 0x80:  // PROTO
        if (read<uint8_t>() > 5) damaged("a protocol above 5");
        return;
      case 0x95:  // FRAME
        read<uint64_t>();
        return;
      case '.':  // STOP
        pickle_.root = pop();
        done_ = true;
        return;
      case 'N':
        return push(nothing);
      case 0x88:  // NEWTRUE
        return push(yes);
      case 0x89:  // NEWFALSE
        return push(no);
      case 'J':  // BININT
        return push_integer(4);
      case 'K':  // BININT1
        return push_new({.kind = Kind::integer, .integer = read<uint8_t>()});
      case 'M':  // BININT2
        return push_new({.kind = Kind::integer, .integer = read<uint16_t>()});
      case 0x8a:  // LONG1
        return push_integer(read<uint8_t>());
      case 0x8b:  // LONG4
        return push_integer(read<uint32_t>());
      case 'G':  // BINFLOAT
        take(8);
        return push(number);
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return push_text(read<uint32_t>());
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
        return push_text(read<uint8_t>());
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_text(read<uint64_t>());
      case '(':  // MARK
        return mark();
      case ')':  // EMPTY_TUPLE
        return push(empty_tuple);
      case ']':   // EMPTY_LIST
      case 0x8f:  // EMPTY_SET
        return push_new({.kind = Kind::list});
      case '}':  // EMPTY_DICT
        return push_new({.kind = Kind::dict});
      case 0x85:  // TUPLE1, 2, 3
      case 0x86:
      case 0x87:
        return push_tuple(pop_last(opcode - 0x84u));
      case 't':  // TUPLE
        return push_tuple(pop_marked());
      case 0x91:  // FROZENSET
        return push_list(pop_marked());
      case 'a': {  // APPEND
        const auto item = pop_last(1);
        return append(top(), item);
      }
      case 'e':     // APPENDS
      case 0x90: {  // ADDITEMS
        const auto items = pop_marked();
        return append(top(), items);
      }
      case 's': {  // SETITEM
        const auto items = pop_last(2);
        return set_items(top(), items);
      }
      case 'u': {  // SETITEMS
        const auto items = pop_marked();
        return set_items(top(), items);
      }
      case '0':  // POP
        pop();
        return;
      case '1':  // POP_MARK
        pop_marked();
        return;
      case '2':  // DUP
        return push(top());
      case 'q':  // BINPUT
        return remember(read<uint8_t>());
      case 'r':  // LONG_BINPUT
        return remember(read<uint32_t>());
      case 0x94:  // MEMOIZE
        return remember(static_cast<uint32_t>(memo_.size()));
      case 'h':  // BINGET
        return recall(read<uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(read<uint32_t>());
      case 'c': {  // GLOBAL
        const std::string_view module = line(), name = line();
        return push_name(module, name);
      }
      case 0x93: {  // STACK_GLOBAL
        const std::string_view name = value(pop(), Kind::text, "a name").text;
        return push_name(value(pop(), Kind::text, "a module").text, name);
      }
      case 'Q':  // BINPERSID
        return push_storage();
      case 'R':  // REDUCE
        return call();
      case 0x81: {  // NEWOBJ: a class and its arguments
        value(pop(), Kind::tuple, "arguments");
        return push_object(value(pop(), Kind::name, "a class").text);
      }
      case 0x92: {  // NEWOBJ_EX: and those by name
        pop();
        value(pop(), Kind::tuple, "arguments");
        return push_object(value(pop(), Kind::name, "a class").text);
      }
      case 'b':  // BUILD
        return build();
      default:
        at_ -= 1;
        damaged(fmt::format("opcode 0x{:02x}, which torch.save does not write,", opcode));
    }
  }

  static constexpr uint32_t unknown = 0xffff'ffff;

  std::span<const std::byte> bytes_;
  const std::string& file_;
  MemoryBudget& budget_;
  size_t at_ = 0;
  bool done_ = false;
  TorchPickle pickle_;
  std::vector<uint32_t> stack_, popped_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
};

}  // namespace

TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& file,
                              MemoryBudget& budget) {
  return Machine(bytes, file, budget).run();
}

}  // namespace whisker
