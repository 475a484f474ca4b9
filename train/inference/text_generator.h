// Text generation by a language model: token by token, each drawn from the predicted distribution.
#pragma once

#include "train/model/network.h"

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

/// Continues `prompt` and calls `write` with each part of the text as it is generated. Throws usage
/// for a network that is not a language model, a prompt without a token, and options out of range.
void generate_text(const Network& network, std::string_view prompt,
                   const GenerationOptions& options,
                   const std::function<void(std::string_view)>& write);

/// Draws a token from `logits` by `options`, with `uniform` in [0, 1) as the random number. Padding
/// and the unknown token are never drawn.
int64_t draw_token(std::span<const float> logits, const GenerationOptions& options, double uniform);

}  // namespace whisker
