#include "apps/commands/packed_predictions.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

std::string text_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::ranges::copy(bytes, reinterpret_cast<char*>(values.data()));
  return values;
}

}  // namespace

std::string packed(const Prediction& result, const std::string& heat_map) {
  return pack_texts(std::vector<std::string>{result.name, result.error,
                                             text_of_floats(result.probabilities),
                                             text_of_floats(result.embedding), heat_map});
}

Prediction unpacked(const std::string& text, std::string* heat_map) {
  std::vector<std::string> parts = unpack_texts(text);
  if (heat_map) *heat_map = std::move(parts[4]);
  return {.name = std::move(parts[0]),
          .probabilities = floats_of(parts[2]),
          .error = std::move(parts[1]),
          .embedding = floats_of(parts[3])};
}

}  // namespace whisker
