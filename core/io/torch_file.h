// Weights files of any known kind: safetensors, and what torch.save writes (.pth, .pt, .bin), a zip
// archive or, before PyTorch 1.6, several pickle streams. Nothing of a file is ever executed.
//
// Note [Torch verdict]: a pickle may name what Python would call. torch_pickle.h reads plain data
// and builds tensors; any other name is an error, as with torch.load(weights_only=True). Tensors
// are views of the mapped file; only those with transposed or spread strides are copied, together
// at most twice the file's size and 1 MiB.
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

/// Maps a weights file of any format. Of a torch file the tensors of its state_dict, which may
/// stand under a key (`state_dict`, `model`) of a checkpoint; they have no metadata. Throws
/// checkpoint as SafetensorsFile::open, and for a name that is neither plain data nor a tensor's.
SafetensorsFile open_weights(const std::filesystem::path& path);
/// The tensors of a torch file over `bytes`, which must outlive the result.
SafetensorsFile parse_torch_file(std::span<const std::byte> bytes, const std::string& name);

}  // namespace whisker
