// The two formats of torch.save: a zip archive and, before PyTorch 1.6, several pickle streams. Of
// each the pickle of the values, and the bytes of the storages that its tensors view.
#pragma once

#include "core/io/memory_budget.h"
#include "core/io/torch_pickle.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace whisker {

/// Bytes of storages by their keys.
class TorchStorages {
 public:
  virtual ~TorchStorages() = default;
  /// Throws checkpoint where the file lacks or has damaged it.
  virtual std::span<const std::byte> bytes_of(const TorchStorage& storage) = 0;
};

struct TorchContents {
  TorchPickle pickle;
  std::unique_ptr<TorchStorages> storages = {};
};

/// Both read `bytes`, which must outlive the result, and throw checkpoint naming `file`.
TorchContents read_torch_archive(std::span<const std::byte> bytes, const std::string& file,
                                 MemoryBudget& budget);
TorchContents read_torch_streams(std::span<const std::byte> bytes, const std::string& file,
                                 MemoryBudget& budget);

}  // namespace whisker
