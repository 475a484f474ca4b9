// A stack machine: an opcode at a time, each checked against what the stack holds.
#include "core/io/torch_pickle.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace whisker {
namespace {

constexpr size_t most_values = 1'000'000;
constexpr size_t most_bytes = 64 << 20;
constexpr size_t most_tensors = 65'536;
constexpr size_t most_key_bytes = 255;
constexpr size_t most_axes = 64;

using Kind = TorchValue::Kind;

struct StorageType {
  std::string_view name;
  std::optional<DType> dtype;
  uint64_t element_bytes;
};
constexpr StorageType storage_types[] = {
    {"DoubleStorage", DType::f64, 8},
    {"FloatStorage", DType::f32, 4},
    {"HalfStorage", DType::f16, 2},
    {"BFloat16Storage", DType::bf16, 2},
    {"LongStorage", DType::i64, 8},
    {"IntStorage", DType::i32, 4},
    {"ByteStorage", DType::u8, 1},
    {"UntypedStorage", DType::u8, 1},
    {"BoolStorage", DType::boolean, 1},
    {"ShortStorage", std::nullopt, 2},
    {"CharStorage", std::nullopt, 1},
    {"ComplexFloatStorage", std::nullopt, 8},
    {"ComplexDoubleStorage", std::nullopt, 16},
};

// torch.FloatStorage; torch.cuda.FloatStorage of old files; torch.storage.UntypedStorage.
const StorageType* find_storage_type(std::string_view name) {
  for (const std::string_view module : {"torch.cuda.", "torch.storage.", "torch."}) {
    if (!name.starts_with(module)) continue;
    name.remove_prefix(module.size());
    break;
  }
  const auto* found = std::ranges::find(storage_types, name, &StorageType::name);
  return found == std::end(storage_types) ? nullptr : found;
}

constexpr std::string_view ordered_dict = "collections.OrderedDict", size_type = "torch.Size";
constexpr std::array<std::string_view, 2> tensor_makers = {"torch._utils._rebuild_tensor_v2",
                                                           "torch._utils._rebuild_tensor"};
constexpr std::array<std::string_view, 2> parameter_makers = {
    "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"};

bool is_known_name(std::string_view name) {
  const auto among = [&](const auto& names) { return std::ranges::count(names, name) > 0; };
  const bool storage = name.starts_with("torch.") && find_storage_type(name);
  return name == ordered_dict || name == size_type || among(tensor_makers) ||
         among(parameter_makers) || storage;
}

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes.first(std::min(bytes.size(), most_bytes))), file_(file) {
    for (const Kind kind : {Kind::none, Kind::boolean, Kind::boolean}) push_new({.kind = kind});
    pickle_.values[yes].integer = 1;
    stack_.clear();
  }

  TorchPickle run() {
    while (!done_) step();
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
  static constexpr uint32_t nothing = 0, no = 1, yes = 2;  // one value each

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
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text(uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    std::string result = text(static_cast<uint64_t>(end - rest.begin()));
    take(1);
    return result;
  }

  // --- the stack

  void push(uint32_t value) { stack_.push_back(value); }
  void push_new(TorchValue value) {
    if (pickle_.values.size() >= most_values) damaged("more than a million values");
    pickle_.values.push_back(std::move(value));
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
  // What was pushed since the last mark.
  std::vector<uint32_t> pop_marked() {
    if (marks_.empty()) damaged("an opcode lacks its mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  TorchValue& value(uint32_t index) { return pickle_.values[index]; }
  TorchValue& value(uint32_t index, Kind kind, std::string_view expected) {
    TorchValue& found = pickle_.values[index];
    if (found.kind != kind) damaged(fmt::format("expected {}", expected));
    return found;
  }

  void push_tuple(size_t count) {
    TorchValue tuple{.kind = Kind::tuple};
    for (size_t i = 0; i < count; ++i) tuple.items.push_back(pop());
    std::ranges::reverse(tuple.items);
    push_new(std::move(tuple));
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
    push_new(std::move(integer));
  }
  void push_number() {  // big-endian
    auto bits = number<uint64_t>();
    bits = __builtin_bswap64(bits);
    TorchValue real{.kind = Kind::number};
    std::memcpy(&real.number, &bits, sizeof(bits));
    push_new(std::move(real));
  }
  void add_items(Kind kind, const std::vector<uint32_t>& items) {
    TorchValue& target = value(top(), kind, kind == Kind::dict ? "a dict" : "a list");
    if (kind == Kind::dict && items.size() % 2 != 0) damaged("a key lacks its value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void remember(uint32_t index) {
    if (memo_.size() >= most_values) damaged("more than a million values");
    memo_[index] = top();
  }
  void recall(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) damaged("it refers to a value that it lacks");
    push(found->second);
  }

  // --- names and what they make

  void push_name(const std::string& module, const std::string& name) {
    const std::string full = module + "." + name;
    if (!is_known_name(full)) {
      fail(
          ErrorKind::checkpoint,
          "{}: expected tensors alone, got {}, which Python would import and may call. Nothing was "
          "executed. Save the weights alone, torch.save(model.state_dict(), FILE), or convert the "
          "file where you trust it: safetensors.torch.save_file(state_dict, "
          "'weights.safetensors').",
          file_, excerpt(full));
    }
    push_new({.kind = Kind::name, .text = full});
  }

  uint64_t count_of(uint32_t index, std::string_view expected) {
    const TorchValue& integer = value(index, Kind::integer, expected);
    if (integer.integer < 0 || !integer.text.empty()) damaged(fmt::format("expected {}", expected));
    return static_cast<uint64_t>(integer.integer);
  }
  std::vector<uint64_t> extents_of(uint32_t index) {
    const TorchValue& tuple = value(index, Kind::tuple, "a tuple of extents");
    if (tuple.items.size() > most_axes) damaged("more than 64 axes");
    std::vector<uint64_t> extents;
    for (const uint32_t item : tuple.items) {
      extents.push_back(count_of(item, "extents of at least 0"));
    }
    return extents;
  }

  // ('storage', torch.FloatStorage, key, device, elements); old files add a view, which is None.
  void push_storage() {
    const std::vector<uint32_t>& id =
        value(pop(), Kind::tuple, "a persistent id as torch.save writes").items;
    if (id.size() < 5 || value(id[0]).text != "storage" || (id.size() > 5 && id[5] != nothing)) {
      damaged("expected a persistent id as torch.save writes");
    }
    const std::string& type = value(id[1], Kind::name, "a type of storage").text;
    const StorageType* known = find_storage_type(type);
    const std::string& key = value(id[2], Kind::text, "a storage's key").text;
    if (!known || key.size() > most_key_bytes) damaged("expected a type of storage and a key");
    if (pickle_.storages.size() >= most_tensors) damaged("more than 65536 storages");
    pickle_.storages.push_back({.key = key,
                                .type = type,
                                .dtype = known->dtype,
                                .element_bytes = known->element_bytes,
                                .elements = count_of(id[4], "a count of elements")});
    push_new({.kind = Kind::storage, .integer = static_cast<int64_t>(pickle_.storages.size() - 1)});
  }

  // (storage, offset, shape, strides, ...)
  void push_tensor(const std::vector<uint32_t>& arguments) {
    if (arguments.size() < 4) damaged("a tensor lacks its arguments");
    if (pickle_.views.size() >= most_tensors) damaged("more than 65536 tensors");
    const TorchValue& storage = value(arguments[0], Kind::storage, "a tensor's storage");
    TorchView view{.storage = static_cast<size_t>(storage.integer),
                   .offset = count_of(arguments[1], "an offset of at least 0"),
                   .shape = extents_of(arguments[2]),
                   .strides = extents_of(arguments[3])};
    if (view.shape.size() != view.strides.size()) damaged("a tensor needs a stride for each axis");
    pickle_.views.push_back(std::move(view));
    push_new({.kind = Kind::tensor, .integer = static_cast<int64_t>(pickle_.views.size() - 1)});
  }

  void call() {
    const std::vector<uint32_t>& arguments = value(pop(), Kind::tuple, "arguments").items;
    const std::string& name = value(pop(), Kind::name, "a name to call").text;
    const auto is_one_of = [&](const auto& names) { return std::ranges::count(names, name) > 0; };
    if (is_one_of(tensor_makers)) return push_tensor(arguments);
    if (name == ordered_dict && arguments.empty()) return push_new({.kind = Kind::dict});
    const bool first = is_one_of(parameter_makers) || name == size_type;
    if (!first || arguments.empty())
      damaged(fmt::format("a call of {} that no tensor needs", name));
    const Kind kind = name == size_type ? Kind::tuple : Kind::tensor;
    value(arguments[0], kind, kind == Kind::tuple ? "a tuple of extents" : "a tensor");
    push(arguments[0]);
  }

  // --- opcodes

  void step() {
    const auto opcode = number<uint8_t>();
    switch (opcode) {
      case 0x80:  // PROTO
        if (number<uint8_t>() > 5) damaged("a protocol above 5");
        return;
      case 0x95:  // FRAME
        number<uint64_t>();
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
        return push_new({.kind = Kind::integer, .integer = number<uint8_t>()});
      case 'M':  // BININT2
        return push_new({.kind = Kind::integer, .integer = number<uint16_t>()});
      case 0x8a:  // LONG1
        return push_integer(number<uint8_t>());
      case 0x8b:  // LONG4
        return push_integer(number<uint32_t>());
      case 'G':  // BINFLOAT
        return push_number();
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return push_new({.kind = Kind::text, .text = text(number<uint32_t>())});
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
        return push_new({.kind = Kind::text, .text = text(number<uint8_t>())});
      case 0x8d:  // BINUNICODE8
        return push_new({.kind = Kind::text, .text = text(number<uint64_t>())});
      case '(':  // MARK
        if (marks_.size() >= most_values) damaged("more than a million marks");
        marks_.push_back(stack_.size());
        return;
      case ')':  // EMPTY_TUPLE
        return push_new({.kind = Kind::tuple});
      case ']':  // EMPTY_LIST
        return push_new({.kind = Kind::list});
      case '}':  // EMPTY_DICT
        return push_new({.kind = Kind::dict});
      case 0x85:  // TUPLE1, 2, 3
      case 0x86:
      case 0x87:
        return push_tuple(opcode - 0x84u);
      case 't':  // TUPLE
        return push_new({.kind = Kind::tuple, .items = pop_marked()});
      case 'a': {  // APPEND
        const uint32_t item = pop();
        return add_items(Kind::list, {item});
      }
      case 'e': {  // APPENDS
        const std::vector<uint32_t> items = pop_marked();
        return add_items(Kind::list, items);
      }
      case 's': {  // SETITEM
        const uint32_t item = pop(), key = pop();
        return add_items(Kind::dict, {key, item});
      }
      case 'u': {  // SETITEMS
        const std::vector<uint32_t> items = pop_marked();
        return add_items(Kind::dict, items);
      }
      case '0':  // POP
        pop();
        return;
      case 'q':  // BINPUT
        return remember(number<uint8_t>());
      case 'r':  // LONG_BINPUT
        return remember(number<uint32_t>());
      case 0x94:  // MEMOIZE
        return remember(static_cast<uint32_t>(memo_.size()));
      case 'h':  // BINGET
        return recall(number<uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(number<uint32_t>());
      case 'c': {  // GLOBAL
        const std::string module = line(), name = line();
        return push_name(module, name);
      }
      case 0x93: {  // STACK_GLOBAL
        const std::string name = value(pop(), Kind::text, "a name").text;
        return push_name(value(pop(), Kind::text, "a module").text, name);
      }
      case 'Q':  // BINPERSID
        return push_storage();
      case 'R':  // REDUCE
        return call();
      case 'b':  // BUILD: attributes, as the _metadata of a state_dict
        pop();
        top();
        return;
      default:
        at_ -= 1;
        damaged(fmt::format("opcode 0x{:02x}, which plain data does not need,", opcode));
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  size_t at_ = 0;
  bool done_ = false;
  TorchPickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, uint32_t> memo_;
};

}  // namespace

TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& file) {
  return Machine(bytes, file).run();
}

}  // namespace whisker
