// The opcodes.
#include "core/io/torch_pickle.h"

#include "core/io/pickle_calls.h"

namespace whisker {
namespace {

class Machine : private PickleCalls {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file, MemoryBudget& budget)
      : PickleCalls(bytes, file, budget) {}

  TorchPickle run() {
    while (!done_) step();
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
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

  bool done_ = false;
};

}  // namespace

TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& file,
                              MemoryBudget& budget) {
  return Machine(bytes, file, budget).run();
}

}  // namespace whisker
