// What the ranks of a command compare before they divide its work
// (core/communicator/rank_agreement.h). Each is collective and throws, on every rank, what differs
// first and on which rank.
#pragma once

#include "core/communicator/rank_agreement.h"
#include "data/images/image_folder.h"
#include "train/model/signature.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace whisker {

/// The version of this program, and the command with its options, but for --device, --gpus,
/// --workers, and what paths are called. Throws usage.
void require_same_command(RankGroup& ranks, const CLI::App& command);
/// The content of the weights file, and what it and the options make of classes and preprocessing.
/// Throws checkpoint.
void require_same_weights(RankGroup& ranks, const std::filesystem::path& weights,
                          const Signature& signature);
/// Labelled images: names, labels and sizes. Names are compared without the part that is one of
/// `prefixes`. Throws data.
void require_same_images(RankGroup& ranks, const ImageFolder& images,
                         std::span<const std::string> prefixes);
/// Images: names and sizes, likewise.
void require_same_paths(RankGroup& ranks, std::span<const std::string> paths,
                        std::span<const std::string> prefixes);
/// Other files, or all files of folders: contents. Throws data.
void require_same_files(RankGroup& ranks, std::span<const std::string> paths,
                        std::string_view what);

/// The folders that names of images may begin with.
std::vector<std::string> prefixes_of(std::vector<std::string> inputs,
                                     const std::filesystem::path& csv = {});

}  // namespace whisker
