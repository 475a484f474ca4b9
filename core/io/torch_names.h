// The names in pickles of torch.save: those that make tensors and plain data, and those that no
// weights need because they run code.
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

/// Of torch.FloatStorage; torch.cuda.FloatStorage of old files; torch.storage.UntypedStorage.
const StorageType* find_storage_type(std::string_view name);

/// What a call of a name makes.
enum class Maker : uint8_t {
  tensor,     ///< torch._utils._rebuild_tensor_v2
  tensor_v3,  ///< with a type that has no storage of its own
  parameter,  ///< its first argument
  subclass,   ///< what its first argument makes of its third
  dict,
  size,    ///< torch.Size
  set,     ///< kept as a list
  bytes,   ///< of protocol 2: _codecs.encode of a text
  object,  ///< anything else: not built
};
Maker maker_of(std::string_view name);

/// Whether a name is known to run programs or code, or to change files: os.system, builtins.eval.
bool runs_code(std::string_view name);

}  // namespace whisker
