// The pickle streams of torch.save, read into plain values. Python's pickle can call any function;
// this reader calls none. It knows the opcodes and the few names that tensors need; whatever else
// Python would import and call becomes an object of that name, without being built. Names that run
// programs or code are refused. Opcodes: Python's Lib/pickletools.py.
#pragma once

#include "core/io/memory_budget.h"
#include "core/io/torch_names.h"
#include "core/tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The memory that tensors view: `key` names it within the file.
struct TorchStorage {
  std::string_view key;
  std::string_view type;       ///< torch.FloatStorage
  std::optional<DType> dtype;  ///< nothing: a type that Whisker lacks
  uint64_t element_bytes = 0;
  uint64_t elements = 0;
};

/// One tensor's place in a storage, in elements; not yet checked against its size.
struct TorchView {
  size_t storage = 0;  ///< index
  uint64_t offset = 0;
  uint32_t shape = 0, strides = 0;     ///< values: tuples of as many integers of at least 0
  bool negative = false;               ///< the values are those of the storage times -1
  std::string_view type = {};          ///< torch.uint16, where it is not the storage's
  const OtherTensor* other = nullptr;  ///< then nothing else of it is known
};

/// A value of a stream. Values name each other by index, so that neither cycles nor depth do harm.
struct TorchValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    number,  ///< which one is of no use
    text,
    tuple,
    list,
    dict,
    name,     ///< of what would be called: "torch.FloatStorage"
    storage,  ///< `integer` is its index
    tensor,   ///< `integer` is the index of its view
    object,   ///< that Python would build: `text` is its class
  };
  Kind kind = Kind::none;
  uint32_t items = 0;  ///< see TorchPickle::items_of
  /// The value of an integer that 64 bits hold; else `text` has its bytes. An object or dict has
  /// the value of its attributes, or 0.
  int64_t integer = 0;
  std::string_view text = {};  ///< in the stream, or one of TorchPickle::names
};

struct TorchPickle {
  std::deque<TorchValue> values;
  std::deque<std::vector<uint32_t>> lists;
  std::set<std::string> names;         ///< of what would be imported
  std::vector<TorchStorage> storages;  ///< some may have one key
  std::vector<TorchView> views;
  uint32_t root = 0;
  size_t bytes = 0;  ///< of the stream, which other bytes may follow

  /// Values of a tuple or list; of a dict, or of an object that is one, keys and values in turn.
  std::span<const uint32_t> items_of(const TorchValue& value) const {
    return value.items == 0 ? std::span<const uint32_t>() : lists[value.items - 1];
  }
  std::span<const uint32_t> items_of(uint32_t value) const { return items_of(values[value]); }
};

/// Reads the stream at the beginning of `bytes`, which must outlive the result. Throws checkpoint,
/// naming `file`, for damaged streams, names that run code, more than 64 MiB, and beyond `budget`.
TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& file,
                              MemoryBudget& budget);

}  // namespace whisker
