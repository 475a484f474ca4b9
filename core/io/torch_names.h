// The names in pickles of torch.save: those that make tensors and plain data, those of tensors that
// cannot be read, and those that no weights need because they run code.
#pragma once

#include "core/tensor/dtype.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace whisker {

struct StorageType {
  std::string_view name;
  std::optional<DType> dtype;  ///< nothing: a type that Whisker lacks
  uint64_t element_bytes;
};

/// The type of torch.FloatStorage, torch.cuda.FloatStorage of old files, or UntypedStorage.
const StorageType* find_storage_type(std::string_view name);

/// What a call of a name makes.
enum class Maker : uint8_t {
  tensor,     ///< torch._utils._rebuild_tensor_v2
  tensor_v3,  ///< with a type that has no storage of its own
  parameter,  ///< its first argument
  subclass,   ///< what its first argument makes of its third
  dict,
  size,          ///< torch.Size
  set,           ///< kept as a list
  bytes,         ///< of protocol 2: _codecs.encode of a text
  other_tensor,  ///< see find_other_tensor()
  object,        ///< anything else: not built
};
Maker maker_of(std::string_view name);

/// A tensor whose values stand otherwise than in a storage, or nowhere.
struct OtherTensor {
  std::string_view maker;   ///< torch._utils._rebuild_sparse_tensor
  std::string_view what;    ///< "a sparse tensor"
  std::string_view remedy;  ///< a sentence
};
/// nullptr for the name of another maker.
const OtherTensor* find_other_tensor(std::string_view maker);

/// Whether a name is known to run programs or code, or to change files: os.system, builtins.eval.
bool runs_code(std::string_view name);

}  // namespace whisker
