// The stack machine of a pickle stream: its bytes, the values made so far, and the stack, marks and
// memo that name them by index. What is kept is charged to a budget.
#pragma once

#include "core/error.h"
#include "core/io/torch_pickle.h"

#include <algorithm>
#include <cstring>

namespace whisker {

class PickleStack {
 protected:
  using Kind = TorchValue::Kind;

  static constexpr size_t most_bytes = 64 << 20;
  static constexpr uint64_t node_bytes = 64;  // of the lists of values beside their elements
  static constexpr uint32_t nothing = 0, no = 1, yes = 2, number = 3, empty_tuple = 4;

  PickleStack(std::span<const std::byte> bytes, const std::string& file, MemoryBudget& budget)
      : bytes_(bytes.first(std::min(bytes.size(), most_bytes))), file_(file), budget_(budget) {
    for (const Kind kind : {Kind::none, Kind::boolean, Kind::boolean, Kind::number, Kind::tuple}) {
      push_new({.kind = kind});
    }
    value(yes).integer = 1;
    stack_.clear();
  }

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

  static constexpr uint32_t unknown = 0xffff'ffff;

  std::span<const std::byte> bytes_;
  const std::string& file_;
  MemoryBudget& budget_;
  size_t at_ = 0;
  TorchPickle pickle_;
  std::vector<uint32_t> stack_, popped_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
};

}  // namespace whisker
