#include "apps/commands/prediction_printer.h"

#include "apps/terminal/command.h"
#include "apps/terminal/inputs.h"
#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <variant>

namespace whisker {
namespace {

std::vector<size_t> most_probable(std::span<const float> probabilities, size_t count) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) {
        return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
      });
  order.resize(count);
  return order;
}

bool is_unknown(const Prediction& result, double threshold) {
  return static_cast<double>(std::ranges::max(result.probabilities)) < threshold;
}

void write_prediction(JsonWriter& json, const char* key, const Prediction& result,
                      const std::vector<std::string>& classes, const ClassifyArguments& arguments,
                      std::optional<int64_t> unknown_tokens) {
  json.begin_object().field(result.name.empty() ? "input" : key, result.name);
  if (!result.error.empty()) {
    json.field("error", bare_reason(result.name, result.error)).end_object();
    return;
  }
  if (arguments.threshold > 0) {
    json.field("unknown", is_unknown(result, arguments.threshold));
  }
  if (unknown_tokens) json.field("unknown_tokens", *unknown_tokens);
  json.key("predictions").begin_array();
  for (const size_t c : most_probable(result.probabilities, static_cast<size_t>(arguments.top))) {
    json.begin_object().field("class", classes[c]).field("probability", result.probabilities[c]);
    json.end_object();
  }
  json.end_array().end_object();
}

std::string text_line(const Prediction& result, const std::vector<std::string>& classes,
                      const ClassifyArguments& arguments) {
  std::string line = printable(result.name) + ":";
  if (is_unknown(result, arguments.threshold)) line += "  unknown:";
  for (const size_t c : most_probable(result.probabilities, static_cast<size_t>(arguments.top))) {
    line += fmt::format("  {} {:.4f}", printable(classes[c]), result.probabilities[c]);
  }
  return line + "\n";
}

}  // namespace

PredictionPrinter::PredictionPrinter(const ClassifyArguments& arguments, const Network& network,
                                     const char* key, bool leads)
    : arguments_(arguments),
      classes_(network.classes()),
      key_(key),
      leads_(leads),
      text_(std::get_if<TextInput>(&network.signature().input)) {
  if (!arguments_.json) return;
  all_.begin_object().field("schema_version", 2);
  all_.key(network.signature().examples()).begin_array();
}

void PredictionPrinter::print(const Prediction& given) {
  Prediction result = given;
  if (result.name.empty()) result.error = "the input is empty";
  failed_ = failed_ || !result.error.empty();
  if (!result.error.empty()) tell_unreadable(result.name, result.error);
  std::optional<int64_t> unknown;
  if (text_ && result.error.empty()) {
    TokenCounts counts;
    text_->count(result.name, counts);
    const UnknownTokens found = unknown_tokens(text_->vocabulary, counts);
    unknown = found.unknown;
    tokens_.all += found.all;
    tokens_.unknown += found.unknown;
    if (tokens_.example.empty()) tokens_.example = found.example;
  }
  if (arguments_.json) {
    write_prediction(all_, key_, result, classes_, arguments_, unknown);
  } else if (arguments_.jsonl) {
    JsonWriter one;
    write_prediction(one, key_, result, classes_, arguments_, unknown);
    print_result(one.str() + "\n");
  } else if (result.error.empty()) {
    print_result(text_line(result, classes_, arguments_));
  }
}

int PredictionPrinter::finish() {
  if (arguments_.json && leads_) print_result(all_.end_array().end_object().str() + "\n");
  return failed_ ? static_cast<int>(ErrorKind::data) : 0;
}

std::string PredictionPrinter::unknown_note() const {
  return note_of(tokens_);
}

}  // namespace whisker
