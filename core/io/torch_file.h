// Weights files of any known kind: safetensors, and what torch.save writes (.pth, .pt, .bin), a zip
// archive or, before PyTorch 1.6, several pickle streams. Nothing of a file is ever executed.
//
// Note [Torch verdict]: a pickle may name what Python would call. torch_pickle.h reads plain data
// and builds tensors; other objects are left out and named, and names that run code are errors.
// Tensors are views of the mapped file; only those with transposed or spread strides, or negated,
// are copied. Copies and what is read of the pickle take at most the file's size and 4 MiB, so that
// reading takes at most twice the file and 4 MiB.
#pragma once

#include "core/io/safetensors.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// What the first bytes of a weights file say.
enum class WeightsFormat : uint8_t { safetensors, torch_zip, torch_pickle };
WeightsFormat weights_format(std::string_view content);

/// Maps a weights file of any format. Of a torch file the tensors of its state_dict, see
/// find_torch_weights; their only metadata are
/// `classes`, where the checkpoint names them. `key` says which entry of a checkpoint they are, or
/// which names, by the words before a dot. Throws checkpoint as SafetensorsFile::open, and for a
/// pickle that runs code; usage for a key that the file lacks.
SafetensorsFile open_weights(const std::filesystem::path& path, const std::string& key = "");
/// The tensors of a torch file over `bytes`, which must outlive the result.
SafetensorsFile parse_torch_file(std::span<const std::byte> bytes, const std::string& name,
                                 const std::string& key = "");

}  // namespace whisker
