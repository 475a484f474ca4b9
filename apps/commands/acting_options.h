// Options of classify, evaluate and data that act on some inputs only: one table says on which.
#pragma once

#include "train/config/config.h"
#include "train/model/signature.h"

#include <string>

namespace CLI {
class App;
}

namespace whisker {

/// What a command works with.
struct OptionUse {
  DataKind kind = DataKind::images;
  std::string got = {};      ///< for messages: "a network trained on texts"
  bool reads_stdin = false;  ///< '-' is among the inputs
  bool names_data = true;    ///< false: --split or a configuration says which data are read
};

/// The use of a network with this signature.
OptionUse use_of(const Signature& signature);

/// Throws usage for the first option that was given and cannot act, with what it is for.
void require_acting_options(const CLI::App& command, const OptionUse& use);

}  // namespace whisker
