// What the ranks of a run compare before they train together (core/communicator/rank_agreement.h).
// Each is collective and throws, on every rank, what differs first and on which rank.
#pragma once

#include "core/communicator/rank_agreement.h"
#include "data/images/image_folder.h"
#include "train/checkpoint/run_folder.h"
#include "train/config/config.h"
#include "train/data/run_data.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// All keys but those that ranks may have of their own: where things are (name, runs, init.from,
/// data.train, val, test, csv and cache_file), device, data.workers, data.prefetch,
/// data.cache_limit_mib and runtime.*.
Facts facts_of_ranks(const Config& config);

/// The configuration as it was given; usage. `remedy`: see Agreement.
void require_same_config(RankGroup& ranks, const Config& config, std::string_view remedy = "");
/// The checkpoint that the run in `folder` goes on from; checkpoint.
void require_same_checkpoint(RankGroup& ranks, const RunFolder& folder);
/// The data that were read, then the weights of `init` and what they make of the configuration,
/// then what each rank computes in. Throws data, checkpoint and usage.
void require_same_start(RankGroup& ranks, const Config& config, const RunData& data,
                        const Facts& computes);

/// ("cat/1.jpg in data.train", "cat, 3072 bytes") of each file, after the names of the classes.
Facts facts_of(const ImageFolder& folder, std::string_view in);
/// ("cat/1.jpg", its content) of each class's first file, up to a hundred of them: all files of a
/// set may have the same size.
Facts first_contents(const ImageFolder& folder);
/// The content of each file, named `what` and its number, and of all files of each folder, whatever
/// the paths are called.
Facts facts_of_files(std::span<const std::string> paths, std::string_view what);
/// "3072 bytes, hash 0123456789abcdef"; "missing".
std::string content_of(const std::filesystem::path& file);

}  // namespace whisker
