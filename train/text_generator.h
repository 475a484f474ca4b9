// A language model that writes: token by token, each drawn from what the network expects after all
// before it.
#pragma once

#include "train/network.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace whisker {

struct GenerationOptions {
  int64_t length = 500;    ///< tokens
  double temperature = 1;  ///< logits are divided by it; 0: always the most probable token
  int64_t top_k = 0;       ///< draw from the k most probable tokens only; 0: from all
  uint64_t seed = 1;       ///< the same seed gives the same text
};

/// Continues `prompt`, calling `write` with each piece of text as it comes. Throws usage for a
/// network that is no language model, a prompt without a token, and options out of range.
void generate_text(const Network& network, std::string_view prompt,
                   const GenerationOptions& options,
                   const std::function<void(std::string_view)>& write);

/// A token drawn from `logits` as `options` say, with `uniform` in [0, 1) as the draw. Padding and
/// the unknown token are never drawn.
int64_t draw_token(std::span<const float> logits, const GenerationOptions& options, double uniform);

}  // namespace whisker
