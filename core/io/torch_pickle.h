// The pickle streams of torch.save, read into plain values. Python's pickle can call any function;
// this reader knows the opcodes of plain data and the few names that tensors need, and refuses
// every other name. Opcodes: Python's Lib/pickletools.py.
#pragma once

#include "core/tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

/// The memory that tensors view: `key` names it within the file.
struct TorchStorage {
  std::string key;
  std::string type;            ///< torch.FloatStorage
  std::optional<DType> dtype;  ///< nothing: a type that Whisker lacks
  uint64_t element_bytes = 0;
  uint64_t elements = 0;
};

/// One tensor's place in a storage, in elements; not yet checked against its size.
struct TorchView {
  size_t storage = 0;  ///< index
  uint64_t offset = 0;
  std::vector<uint64_t> shape, strides;
};

/// A value of a stream. Values name each other by index, so that neither cycles nor depth do harm.
struct TorchValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    number,
    text,
    tuple,
    list,
    dict,
    name,     ///< of what would be called: "torch.FloatStorage"
    storage,  ///< `integer` is its index
    tensor,   ///< `integer` is the index of its view
  };
  Kind kind = Kind::none;
  int64_t integer = 0;  ///< of an integer that 64 bits hold; else `text` has its bytes
  double number = 0;
  std::string text = {};
  std::vector<uint32_t> items = {};  ///< of a tuple or list; of a dict keys and values in turn
};

struct TorchPickle {
  std::deque<TorchValue> values;
  std::vector<TorchStorage> storages;  ///< some may have one key
  std::vector<TorchView> views;
  uint32_t root = 0;
  size_t bytes = 0;  ///< of the stream, which other bytes may follow
};

/// Reads the stream at the beginning of `bytes`. Throws checkpoint, naming `file`, for what is not
/// plain data and tensors, and for streams beyond its limits: a million values, 64 MiB.
TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& file);

}  // namespace whisker
