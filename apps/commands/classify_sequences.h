// `whisker classify` of texts, rows and series. Each returns the exit code.
#pragma once

#include "apps/commands/classify_arguments.h"
#include "core/communicator/rank_group.h"
#include "train/model/network.h"

namespace whisker {

/// The texts of --text, then those of standard input.
int classify_given_texts(const Network& network, const ClassifyArguments& arguments,
                         RankGroup& ranks, int verbosity);
/// The rows of the files that are named.
int classify_row_files(const Network& network, const ClassifyArguments& arguments, RankGroup& ranks,
                       int verbosity);
/// What follows each series.
int forecast_files(const Network& network, const ClassifyArguments& arguments, RankGroup& ranks,
                   int verbosity);

}  // namespace whisker
